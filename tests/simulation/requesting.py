"""The requests of clients and of the analyst: honest, repeated, reordered, hostile, and plain junk."""

import json
from math import floor
from typing import NamedTuple, Self

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Census,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    Signed,
    TaskRecord,
    UploadAnswer,
    inventory_of,
    receipt_hash,
    sign,
)
from lintra_protocol.report.report import seal_block
from lintra_protocol.report.upload import SealedBlock, decode_upload, encode_upload
from lintra_protocol.rules.release import fewest_reports
from simulation import verified
from simulation.books import (
    Answer,
    Course,
    Sent,
    batch_key,
    cohort_of,
    law,
)
from simulation.reading import report_ids_of
from simulation.releasing import check_share, finish
from simulation.world import World, another_with, identities, mark_edited, registration, remember_secret
from support.measured import calibrated_for
from support.server_world import AUTHOR, MECHANISMS
from vectors import plain

NAMES = ("inventory", "cohort", "checks", "verdict", "aggregate")
"""Of a task without proofs all but the third and fourth."""

PASSING = ("unavailable", "overloaded", "no answer")
"""What a server in trouble may answer; whoever asked asks again."""


# --- uploads -------------------------------------------------------------------------------------------------


def sealed(world: World, course: Course, server: int, *report_ids: bytes) -> SealedBlock:
    """Return a block of some reports as it is sent to a server, always the same."""
    if (server, report_ids) not in world.sealed:
        sent = [course.reports[report_id] for report_id in report_ids]
        passes = [each.token.pass_for(server) for each in sent if each.token]
        key = world.servers[server].sealing_key()
        made = seal_block(course.task, server, *key, [each.report for each in sent], passes)
        world.sealed[server, report_ids] = made
    return world.sealed[server, report_ids]


class Parcel:
    """One upload: what is sent, to which server, and which reports it honestly brings."""

    def __init__(self, kind: str, course: Course, server: int, body: bytes, ids: list[bytes]) -> None:
        self.kind, self.course, self.server, self.body, self.ids = kind, course, server, body, ids


async def burst(world: World, server: int) -> None:
    """Send some uploads to one server at the same moment."""
    courses = [course for course in world.active() if course.task.task_id in world.seats[server].tasks]
    parcels = []
    for _ in range(world.chance.randint(8, 30)):
        parcel = new_parcel(world, world.chance.choice(courses), server) if courses else None
        parcels += [parcel] if parcel else []
    if not parcels:
        return
    for parcel in parcels:
        world.did(parcel.kind)
        world.seats[server].reached(parcel.course.key, parcel.ids)
    answers = await world.servers[server].upload([(each.course.task.task_id, each.body) for each in parcels])
    mark_edited(world, server)
    for parcel, answer in zip(parcels, answers, strict=True):
        judge_upload(world, parcel, answer)


async def upload_one(world: World, course: Course, server: int) -> None:
    """Send one honest report that waits, if there is one, while something else goes on."""
    waiting = course.waiting.get(server, [])
    if waiting:
        parcel = parcel_of(world, "upload while closing", course, server, waiting[:1])
        world.did(parcel.kind)
        world.seats[server].reached(course.key, parcel.ids)
        (answer,) = await world.servers[server].upload([(course.task.task_id, parcel.body)])
        judge_upload(world, parcel, answer)


def new_parcel(world: World, course: Course, server: int) -> Parcel | None:
    """Make one upload of some kind."""
    chance, seat = world.chance, world.seats[server]
    dice = chance.random()
    acknowledged = sorted(seat.must.get(course.key, ()))
    if dice < 0.08:
        return junk(world, course, server)
    if dice < 0.2 and acknowledged:
        known = chance.sample(acknowledged, min(len(acknowledged), chance.choice([1, 1, 1, 3])))
        return parcel_of(world, "upload repeated", course, server, known)
    if dice < 0.24 and acknowledged and course.task.uses_tokens:
        twin = another_with(world, course, course.reports[chance.choice(acknowledged)])
        return parcel_of(world, "token used again", course, server, [twin.report_id])
    waiting = course.waiting.get(server, [])
    mine = waiting[: chance.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 3])]
    if not mine:
        return None
    course.waiting[server] = waiting[len(mine) :] + mine
    return parcel_of(world, "upload", course, server, mine)


def parcel_of(world: World, kind: str, course: Course, server: int, ids: list[bytes]) -> Parcel:
    """Make an upload of reports, in one block or in one each; what was in one block before may come in another."""
    groups = [ids] if len(ids) == 1 or world.maybe(0.5) else [[each] for each in ids]
    body = encode_upload([sealed(world, course, server, *group) for group in groups])
    return Parcel(kind, course, server, body, ids)


def junk(world: World, course: Course, server: int) -> Parcel | None:
    """Make an upload that must not be taken: cut, changed, invented, or meant for somebody else."""
    chance = world.chance
    # A changed token spoils its own report only, so there is one report where there are tokens.
    some = list(course.reports)[: 1 if course.task.uses_tokens else chance.choice([1, 1, 2])]
    body = bytearray(encode_upload([sealed(world, course, server, *some)]))
    match chance.randrange(4):
        case 0:
            body = body[: chance.randrange(len(body))]
        case 1:
            body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        case 2:
            body = bytearray(chance.randbytes(chance.choice([0, 1, 40, 400])))
        case 3:
            other = (server + 1) % course.task.num_servers
            if not world.servers[other].is_up:
                return None
            body = bytearray(encode_upload([sealed(world, course, other, *some)]))
    return Parcel("junk", course, server, bytes(body), [])


def judge_upload(world: World, parcel: Parcel, answer: Answer) -> None:
    """Note what an upload was answered, and hold it against the laws."""
    course, seat = parcel.course, world.seats[parcel.server]
    task = course.key
    law(answer.status != 500 or world.unwell(parcel.server), "an upload was answered 500", answer)
    if not answer.good:
        fair = parcel.kind == "junk" or world.unwell(parcel.server)
        unknown = task in lost_here(world, parcel.server) or course.task.task_id not in seat.tasks
        fair = fair or (answer.problem == "unrecognized_task" and unknown)
        fair = fair or seat.stops(course, answer.problem)
        law(fair, "a healthy server refused an honest upload", parcel.kind, answer.problem, answer.body)
        return
    failures, count, covered = read_answer(world, parcel, answer.body)
    brought = parcel.ids
    if parcel.kind == "junk" and count:
        # A report that is stored need not open to be known: whatever it is sealed with changes nothing.
        sent = decode_upload(parcel.body, course.task, parcel.server)
        brought = [each for block in sent for each in block.report_ids if each in seat.may.get(task, ())]
    stored = [report_id for report_id in brought if report_id not in failures]
    right = (count, covered) == (len(stored), receipt_hash(stored))
    law(right, "a receipt is not for what was sent, or junk was taken", parcel.kind, count, len(stored))
    if world.maybe(0.04):
        world.did("answer lost on the way")
        stored = []
    for report_id in stored:
        seat.acknowledge(course, report_id)
    for report_id, problem in failures.items() if parcel.ids else ():
        judge_failure(world, parcel, report_id, problem)
    done = {*stored, *(each for each, problem in failures.items() if problem not in PASSING)}
    course.waiting[parcel.server] = [each for each in course.waiting.get(parcel.server, []) if each not in done]


def read_answer(world: World, parcel: Parcel, body: bytes) -> tuple[dict[bytes, str], int, str]:
    """Return failures, and count and hash of the receipt; signatures are verified now and then, for they cost most."""
    if world.maybe(0.1):
        said = UploadAnswer.from_canonical(body)
        said.receipt.verified(parcel.course.task.servers[parcel.server].identity_key)
    value = json.loads(body)
    failures = {parse_base64url(each["report_id"]): each["type"] for each in value["failures"]}
    receipt = value["receipt"]["message"]
    return failures, receipt["count"], receipt["reports"]


def judge_failure(world: World, parcel: Parcel, report_id: bytes, problem: str) -> None:
    """Hold the refusal of one honest report against the laws."""
    course, seat = parcel.course, world.seats[parcel.server]
    task = course.key
    if problem in PASSING and (world.unwell(parcel.server) or task in seat.closing or seat.hurt(course)):
        return
    known = report_id in seat.must.get(task, ())
    if known and world.servers[parcel.server].set_back:
        return  # what the database that was set back lacks may be refused until the server notices
    # Which reports a batch held that was given up, or whose inventory a restore lost, nobody knows any more.
    fair = not known or (problem == "batch_closed" and task in lost_here(world, parcel.server))
    law(fair, "a report that was acknowledged is refused when it comes again", problem, task)
    arrived = seat.may.get(task, set())
    sent: Sent = course.reports[report_id]
    reasons = {
        "batch_closed": task in seat.closing
        or task in lost_here(world, parcel.server)
        or world.streams.overtaken(course, parcel.server)
        or 0 < course.closes <= world.times.wall
        or (course.closes > 0 and course.begins < seat.barred)
        or len(arrived) > course.task.max_clients,
        "token_spent": sent.token is not None
        and any(course.reports[other].token == sent.token for other in arrived if other != report_id),
    }
    law(reasons.get(problem, False), "an honest report was refused for no reason", problem, parcel.kind, task)


# --- the analyst ---------------------------------------------------------------------------------------------


async def register(world: World, course: Course, server: int) -> None:
    """Let the author register a task."""
    seat, task = world.seats[server], course.task.task_id
    world.did("registration")
    seat.maybe_tasks.add(task)
    if course.task.max_merge > 1:
        await register_forgetful(world, course, server)
    answer = await world.servers[server].ask(task, "register", registration(world, course, server))
    mark_edited(world, server)
    if answer.good:
        if course.key not in seat.given_up:
            seat.tasks.add(task)
    else:
        fair = world.unwell(server) or (answer.problem == "unavailable" and seat.hurt(course))
        fair = fair or any(each.startswith(task) for each in seat.given_up)
        # A task with windows may be over before anybody registers it here.
        fair = fair or course.task.not_after * course.task.time_precision <= world.times.wall
        law(fair, "a healthy server refused a task", answer.problem, answer.body)


async def register_forgetful(world: World, course: Course, server: int) -> None:
    """Bring a task whose author forgot that a corrupt client may have several reports in a release. (law) Refused."""
    claim = course.task.claim.model_copy(update={"max_corrupt_clients": 1})
    mechanism = calibrated_for(MECHANISMS["sum"], len(course.task.columns), claim, course.task.max_clients)
    open_to_all = {"client_auth": "none", "token_keys": ()}
    task = course.task.model_copy(update={"claim": claim, "mechanism": mechanism, **open_to_all})
    record = sign(AUTHOR, TaskRecord(definition=task)).canonical()
    answer = await world.servers[server].ask(task.task_id, "register", record)
    law(not answer.good, "a task was taken that counts a corrupt client once", task.task_id)


async def ask(world: World, course: Course, server: int, name: str, body: bytes = b"") -> Answer:
    """Ask a server as the analyst; whatever document comes is the first or the same."""
    world.did(f"question: {name}")
    closing = world.seats[server].closing
    if name == "inventory":
        closing.update(course.keys)
        world.seats[server].merging.update(course.keys[:-1])
    world.streams.wanted(course, server, name)
    answer = await world.servers[server].ask(course.task.task_id, name, body, course.batch)
    mark_edited(world, server)
    if answer.problem in ("cohort_too_small", "batch_open") and name == "inventory" and not world.loose:
        closing.discard(course.key)
    unwell = world.unwell(server)
    law(answer.status != 500 or unwell, "a question was answered 500", name, answer.problem)
    if answer.good and name == "inventory" and not world.servers[server].offset:
        early = course.closes - world.times.wall
        law(early <= 0, "a window was closed before its grace was over", early, course.key)
    if answer.good and name in NAMES:
        law(not world.seats[server].given_up.intersection(course.keys) or (server, name) in course.documents,
            "a batch that was given up goes on", name, course.key)  # fmt: skip
        course.requests.append((server, name, body))
        if course.said(server, name, answer.body):
            await first_time(world, course, server, name, answer.body)
    if answer.good and name == "aggregate again":
        course.said(server, "aggregate", answer.body)
    if answer.problem == "too_many_rejected":
        law(not verified.may_be_released(course, cohort_of(course)), "a batch was given up for nothing", course.key)
        world.seats[server].given_up.add(course.key)
    if answer.problem in ("abandoned", "unrecognized_task"):
        seat, task = world.seats[server], course.key
        gone = task in lost_here(world, server) or course.task.task_id not in seat.tasks or task in seat.merging
        gone = gone or world.streams.overtaken(course, server)
        if answer.problem == "unrecognized_task":  # its row may be of a time that an older database does not know
            known = seat.hurt(course) or course.task.task_id in world.servers[server].held().entered
            gone = gone or seat.stops(course, answer.problem) or not known
        law(gone or unwell, "a batch is gone that nobody gave up", name, answer.problem, task)
        again = answer.problem == "unrecognized_task" and task not in lost_here(world, server)
        # A release that a restore brought back alone is given out again when its task is registered again.
        course.over = course.over or not (unwell or task in seat.bare or again)
        if again and not unwell and task not in seat.merging:
            await register(world, course, server)
    return answer


async def first_time(world: World, course: Course, server: int, name: str, document: bytes) -> None:
    """Check a document that was never seen before against what is known."""
    key = course.task.servers[server].identity_key
    if name == "inventory":
        message = Signed[Inventory].from_canonical(document).verified(key)
        answer = await ask(world, course, server, "ids")
        # Somebody may have edited it in between.
        fair = world.unwell(server) or (answer.problem == "unavailable" and world.seats[server].hurt(course))
        law(answer.good or fair, "an inventory without its list", answer.problem)
        listed = report_ids_of(answer.body) if answer.good else None
        if listed is not None:
            root = plain.b64(plain.merkle_root(listed))
            law((message.count, message.root) == (len(listed), root), "an inventory is not of its list", course.key)
            world.seats[server].inventory(course, listed)
        held = sum(len(world.seats[server].must.get(each, ())) for each in course.keys)
        law(message.count >= held, "an inventory counts fewer reports than were acknowledged", message.count, held)
        cut = set().union(*(world.seats[server].cut.get(each, set()) for each in course.keys))
        law(message.lost >= len(cut), "an inventory does not say what was lost", message.lost, len(cut), course.key)
        law(message.first == course.first, "an inventory merges other windows than were asked for", course.key)
        held = world.servers[server].held().tasks
        for key in course.keys:
            remember_secret(world, server, key, held[key])
    if name == "checks":
        answer = await ask(world, course, server, "checks body")
        law(answer.good or world.unwell(server), "a check share without its body", answer.problem)
        if answer.good:
            course.bodies[server] = answer.body
            verified.check_checks(world, course, server, document, answer.body, cohort_of(course))
    if name == "verdict":
        verified.check_verdict(course, server, document, cohort_of(course))
    if name == "aggregate":
        check_share(world, course, server, document)


async def lists(world: World, course: Course) -> bool:
    """Fetch the lists of inventories that are not here yet; return whether all are."""
    for server in course.servers:
        if (server, "inventory") in course.documents and server not in course.lists:
            answer = await ask(world, course, server, "ids")
            if answer.good:
                world.seats[server].inventory(course, report_ids_of(answer.body))
    return len(course.lists) == len(course.servers)


def cohort_request(course: Course, server: int) -> bytes:
    inventories = [Signed[Inventory].from_canonical(course.documents[each, "inventory"]) for each in course.servers]
    lists = [ReportIds.of(course.lists[each]) for each in course.servers]
    others = (each for each in course.servers if each != server)
    differences = tuple(Difference.between(other, lists[server], lists[other]) for other in others)
    return CohortRequest(inventories=tuple(inventories), differences=differences).canonical()


async def bodies(world: World, course: Course) -> bool:
    """Fetch the bodies of check shares that are not here yet; return whether all are."""
    for server in course.servers:
        if server not in course.bodies and world.is_up(server):
            answer = await ask(world, course, server, "checks", verified.checks_request(course))
            answer = await ask(world, course, server, "checks body") if answer.good else answer
            if answer.good:
                course.bodies[server] = answer.body
    return len(course.bodies) == len(course.servers)


def aggregate_request(course: Course) -> bytes:
    if course.task.verified is not None:
        return verified.release_request(course)
    cohorts = [Signed[Cohort].from_canonical(course.documents[each, "cohort"]) for each in course.servers]
    return AggregateRequest(cohorts=tuple(cohorts)).canonical()


def lost_here(world: World, server: int) -> set[str]:
    """Return the tasks that a restore ended at a server."""
    return world.seats[server].given_up | world.seats[server].bare


async def next_question(world: World, course: Course) -> None:
    """Do the next step of an honest analyst's exchange."""
    names = NAMES if course.task.verified is not None else (*NAMES[:2], NAMES[-1])
    name = next(name for name in (*names, "") if any((each, name) not in course.documents for each in course.servers))
    lacking = [each for each in course.servers if (each, name) not in course.documents and world.is_up(each)]
    if not name or not lacking:
        course.over = not name
        return
    server = world.chance.choice(lacking)
    body = closing_of(course)
    if name != "inventory":
        if not await lists(world, course):
            return
        if name == "verdict" and not await bodies(world, course):
            return
        body = {
            "cohort": lambda: cohort_request(course, server),
            "checks": lambda: verified.checks_request(course),
            "verdict": lambda: verified.verdict_request(course, server),
            "aggregate": lambda: aggregate_request(course),
        }[name]()
    if name == "inventory" and world.maybe(0.5):
        world.servers[server].meanwhile = lambda: upload_one(world, course, server)
    asked = Asked.of(world, course, server)
    answer = await ask(world, course, server, name, body)
    if answer.good:
        if all((each, "aggregate") in course.documents for each in course.servers):
            finish(world, course)
    elif not world.unwell(server) and not course.over and course.key not in lost_here(world, server):
        judge_refusal(world, course, server, name, answer, asked)


def closing_of(course: Course) -> bytes:
    """Return which windows are to be closed together with a batch, as `InsideServer.ask` takes it."""
    return b"" if course.first is None else str(course.first).encode()


def merge_into_next(world: World, course: Course) -> None:
    """Let the next window take in a small one, if the task merges them and nobody asked for either's inventory."""
    following = next(
        (each for each in world.courses if each.key == batch_key(course.task.task_id, course.batch + 1)), None
    )
    if following is None or following.over or len(course.keys) >= course.task.max_merge:
        return
    asked = any(following.key in seat.closing for seat in world.seats)
    if not asked and not any(name == "inventory" for one in (course, following) for _, name in one.documents):
        following.parts = [*course.parts, course]
        world.did("a small window is merged into the next")


def cannot_merge(world: World, course: Course, server: int) -> bool:
    """Return whether a server may know that a window, which is to be merged, is not open there."""
    seat = world.seats[server]
    closed = seat.closing | seat.never | lost_here(world, server)
    return any(each.key in closed or each.begins < seat.barred for each in course.parts)


class Asked(NamedTuple):
    """What held when a question left; what is acknowledged while it is on its way may be too late for its answer."""

    at: float
    held: int  # reports that the server had acknowledged

    @classmethod
    def of(cls, world: World, course: Course, server: int) -> Self:
        """Take down the time and the reports that a server must hold of the windows of a course."""
        must = world.seats[server].must
        return cls(world.times.wall, sum(len(must.get(key, ())) for key in course.keys))


def judge_refusal(world: World, course: Course, server: int, name: str, answer: Answer, asked: Asked) -> None:
    """(law) A healthy server does every step, unless the numbers say that the release must not be."""
    task, held = course.task, asked.held
    if answer.problem == "unrecognized_task" or (answer.problem == "unavailable" and world.seats[server].hurt(course)):
        course.over = course.over or world.maybe(0.2)
        return  # it was registered again by now; or it waits for the operator
    if name == "inventory":
        # A window that was open when the question left may be over now that its answer is read.
        if answer.problem == "batch_open" and course.closes > asked.at:
            if not course.num_waiting or world.maybe(0.3):
                world.times.pass_(
                    max(0, course.closes - world.times.wall)
                )  # an analyst comes again when the grace is over
            return
        few = answer.problem == "cohort_too_small" and held < fewest_reports(task)
        if course.parts and answer.problem == "batch_closed" and cannot_merge(world, course, server):
            course.over = True
            return
        law(few, "a batch of enough reports was not closed", answer.problem, held, answer.body)
        course.over = bool(course.closes) or not course.waiting.get(server)  # a window gets no more
        if course.closes and course.hostile is None:
            merge_into_next(world, course)
        return
    count, own = len(cohort_of(course)), len(course.lists[server]) + lost_of(course, server)
    few = answer.problem == "cohort_too_small" and count < fewest_reports(task)
    many = answer.problem == "too_many_missing" and task.uses_tokens and own - count > floor(0.25 * own)
    false = answer.problem == "too_many_rejected" and not verified.may_be_released(course, cohort_of(course))
    law(few or many or false, "a step of the release was refused", name, answer.problem, answer.body, count, own)
    course.over = True
    world.outcomes[f"task ended: {answer.problem}"] += 1


def lost_of(course: Course, server: int) -> int:
    """Return how many reports a server's inventory says to be lost."""
    return Signed[Inventory].from_canonical(course.documents[server, "inventory"]).message.lost


async def census(world: World, server: int, course: Course | None = None) -> None:
    """Look at an open batch as the analyst does. (law) One look per time unit; what it names was sent."""
    active = [course for course in world.active() if course.task.task_id in world.seats[server].tasks]
    if course is None:
        course = world.chance.choice(active) if active else None
    if course is None or not world.is_up(server):
        return
    task, seat = course.task, world.seats[server]
    looked = await ask(world, course, server, "census")
    if not looked.good or world.unwell(server) or course.key in lost_here(world, server):
        return
    message = Signed[Census].from_canonical(looked.body).verified(task.servers[server].identity_key)
    course.said(server, f"census of {message.counted_at} by {message.start}", looked.body)
    ids = await ask(world, course, server, "census ids")
    if not ids.good:
        return
    listed = report_ids_of(ids.body)
    right = message.count == len(listed) and message.root == plain.b64(plain.merkle_root(listed))
    law(right, "a census is not of its list", course.key)
    strangers = set(listed) - seat.may.get(course.key, set())
    law(not strangers, "a census names reports that never arrived", len(strangers), course.key)
    course.censuses[server] = listed


# --- attackers -----------------------------------------------------------------------------------------------


async def hostile_question(world: World, course: Course) -> None:
    """Let an analyst who has the keys of all servers but one ask that one for whatever it likes."""
    honest = course.hostile or 0
    if not world.is_up(honest):
        return
    task = course.task
    if (honest, "inventory") not in course.documents or honest not in course.lists:
        unasked = course.key not in world.seats[honest].closing
        if task.max_merge > 1 and not course.parts and unasked and world.maybe(0.5):
            # Windows that were closed long ago, or are part of another release, or may not be merged with this one.
            earlier = [each for each in world.courses if each.task is task and each.batch < course.batch]
            course.parts = earlier[world.chance.randrange(course.batch + 1) :]
        asked = Asked.of(world, course, honest)
        answer = await ask(world, course, honest, "inventory", closing_of(course))
        if not answer.good and not world.unwell(honest):
            if course.parts and answer.problem in ("batch_closed", "invalid_message", "abandoned"):
                course.parts = []
            elif not course.over:
                judge_refusal(world, course, honest, "inventory", answer, asked)
        await lists(world, course)
        return
    own = course.lists[honest]
    least = max(task.claim.min_clients, len(own) - len(own) // 4)
    claimed = sorted(world.chance.sample(own, world.chance.randint(min(least, len(own)), len(own))))
    course.claims.append(claimed)
    inventories = [forged_inventory(world, course, each, claimed) for each in course.servers]
    inventories[honest] = Signed[Inventory].from_canonical(course.documents[honest, "inventory"])
    both = ReportIds.of(own), ReportIds.of(claimed)
    differences = tuple(Difference.between(each, *both) for each in course.servers if each != honest)
    request = CohortRequest(inventories=tuple(inventories), differences=differences)
    await ask(world, course, honest, "cohort", request.canonical())
    if (honest, "cohort") in course.documents:
        await ask(world, course, honest, "aggregate", forged_cohorts(world, course).canonical())
    course.attempts += 1
    course.over = course.over or course.attempts > 4


def forged_inventory(world: World, course: Course, server: int, claimed: list[bytes]) -> Signed[Inventory]:
    closed_at, listed = int(world.times.wall) // course.task.time_precision, ReportIds.of(claimed)
    inventory = inventory_of(course.task, course.batch, server, listed, bytes(32), closed_at, 1, course.first)
    return sign(identities(world)[server], inventory)


def forged_cohorts(world: World, course: Course) -> AggregateRequest:
    """Return the honest server's cohort with matching ones of all others."""
    honest = course.hostile or 0
    frozen = Signed[Cohort].from_canonical(course.documents[honest, "cohort"])
    cohorts = []
    for server in course.servers:
        changed = frozen.message.model_copy(update={"server": server, "nonce": base64url(bytes(32))})
        cohorts.append(frozen if server == honest else sign(identities(world)[server], changed))
    return AggregateRequest(cohorts=tuple(cohorts))


async def repeat_question(world: World, of: int | None = None) -> None:
    """Send an old request of the analyst again, to the same server or another one, in whatever order."""
    asked = [
        (course, *request) for course in world.courses[-12:] for request in course.requests if of in (None, request[0])
    ]
    if not asked:
        return
    course, server, name, body = world.chance.choice(asked)
    same = world.maybe(0.8)
    to = server if same else world.chance.choice(list(course.servers))
    if not world.is_up(to):
        return
    if world.maybe(0.1):
        await ask(world, course, to, "aggregate again")
        return
    answer = await ask(world, course, to, name, body)
    gone = world.unwell(to) or course.key in lost_here(world, to)
    gone = gone or world.seats[to].stops(course, answer.problem) or world.streams.overtaken(course, to)
    if same and name == "inventory":
        law(answer.good or gone, "a document that was given out is not given again", answer.problem, answer.body)
