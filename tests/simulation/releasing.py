"""What was released in a simulation, held against the plain reference and the books."""

import json
from collections import Counter
from math import floor

from lintra_protocol.crypto.ring import ring_from_bytes
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.messages.documents import Signed, SketchShareRecord
from lintra_protocol.report.wire import decode_sealed_document
from lintra_protocol.rules.release import aggregate_context
from simulation import verified
from simulation.books import Course, cohort_of, law, plain_share, plain_total
from simulation.streams import noise_of
from simulation.verified import plain_words
from simulation.world import World, require_gone
from support.measured import noise_sigmas
from vectors import plain

FAR = 12
"""Deviations of a server's noise: beyond it lies one word in 10^32."""


def check_share(world: World, course: Course, server: int, document: bytes) -> None:
    """(law) A sketch share is the plain reference's, bit for bit; afterwards nothing of its batch opens.

    (law) Where servers add the noise it is that and noise.
    """
    task, key = course.task, course.task.servers[server].identity_key
    said, sealed_share = decode_sealed_document(document)
    record = Signed[SketchShareRecord].from_canonical(said).verified(key)
    root, seed = parse_base64url(record.cohort_root), parse_base64url(record.seed)
    law(len(course.keys) <= task.max_merge, "more windows than its task merges are in one release", course.key)
    context = aggregate_context(task, course.batch, server, root, seed, course.first)
    opened = world.analyzer_key.open(sealed_share, context)
    own = course.lists[server] if course.hostile is not None else cohort_of(course)
    cohort = (
        own if course.hostile is None else next((ids for ids in course.claims if plain.merkle_root(ids) == root), own)
    )
    require_few_left_out(world, course, server, set(cohort))
    cohort = verified.accepted(course, cohort) if task.verified is not None else cohort
    law(plain.b64(plain.merkle_root(cohort)) == record.cohort_root, "a release is of another cohort", course.key)
    words = ring_from_bytes(opened).reshape(record.rows, record.words)
    share = [[int(word) for word in row] for row in words]
    exact = plain_share(course, server, cohort, seed, plain_words)
    if task.stream is not None:
        world.streams.check_share(course, server, noise_of(share, exact), record.remembered)
    elif task.noise == "servers":
        require_noise(course, share, exact, 1)
    else:
        law(share == exact, "a sketch share is not the reference's", course.key)
    course.shares[server] = share
    for key in course.keys:
        secret = world.secrets.pop((server, key), None)
        if secret is not None:
            world.destroyed.setdefault(server, []).append(secret)
            require_gone(world, server, [secret])


def require_noise(course: Course, found: list[list[int]], exact: list[list[int]], servers: int) -> None:
    """(law) What is beside the reference's sum is noise of so many servers: none of it far out, and not nothing."""
    sigmas = noise_sigmas(course.task, course.task.num_columns).tolist()
    far = FAR * servers**0.5
    words = [
        (plain.lift((noised - without) % plain.RING), sigma)
        for rows in zip(found, exact, strict=True)
        for noised, without, sigma in zip(*rows, sigmas, strict=True)
    ]
    law(any(beside for beside, _ in words), "a sum whose noise its servers add has none", course.key)
    law(
        all(abs(beside) <= far * sigma for beside, sigma in words), "a sum is not the reference's and noise", course.key
    )


def finish(world: World, course: Course) -> None:
    """Check a whole release, and say of every acknowledged report whether it is in it, or why not."""
    frozen = cohort_of(course)
    cohort = verified.accepted(course, frozen) if course.task.verified is not None else frozen
    record = json.loads(decode_sealed_document(course.documents[0, "aggregate"])[0])["message"]
    seed, root = parse_base64url(record["seed"]), parse_base64url(record["cohort_root"])
    revealed = "cohort" if course.task.verified is None else "verdict"
    nonces = [
        parse_base64url(json.loads(course.documents[each, revealed])["message"]["nonce"]) for each in course.servers
    ]
    batch = course.batch if course.first is None else (course.batch, course.first)
    seeds = [plain.late_seed(course.task.id_bytes, batch, root, nonces, attempt) for attempt in range(8)]
    law(seed in seeds, "the matrix is not drawn from the nonces", course.key)
    total = [
        [sum(words) % plain.RING for words in zip(*rows, strict=True)]
        for rows in zip(*course.shares.values(), strict=True)
    ]
    exact = plain_total(course, cohort, seed)
    if course.task.noise == "servers" and course.task.stream is None:
        require_noise(course, total, exact, course.task.num_servers)
    elif course.task.stream is None:
        law(total == exact, "the released sketch is not the reference's", course.key)
    world.outcomes["released with noise of servers"] += course.task.noise == "servers"
    account(world, course, set(cohort))
    require_claimed(world, course, cohort)
    world.outcomes["released"] += 1
    world.outcomes["window of a stream released"] += course.task.stream is not None
    world.outcomes["window released"] += bool(course.closes)
    world.outcomes["released with windows that were merged"] += bool(course.parts)
    course.over = True


def require_few_left_out(world: World, course: Course, server: int, cohort: set[bytes]) -> None:
    """(law) Of a task with tokens a release lacks few of its server's reports; those that it lost are among them."""
    if course.task.uses_tokens:
        lost = set().union(*(world.seats[server].cut.get(key, set()) for key in course.keys))
        own = lost.union(course.lists[server])
        most = floor(fraction(course.task.max_missing) * len(own))
        law(len(own - cohort) <= most, "a release leaves out more than its task allows", len(own - cohort), most)


def require_claimed(world: World, course: Course, cohort: list[bytes]) -> None:
    """(law) What a source's reports move the sums by, in squares, is at most max_merge times their number."""
    if not course.task.uses_tokens:
        return
    reports, moved = course.all_reports, Counter[bytes]()
    for report_id in cohort:
        token = reports[report_id].token
        moved[b"" if token is None else token.serial] += 1
    for source, number in moved.items():
        known = world.moved.setdefault((course.task.task_id, source), [])
        known.append(number)
        squared = sum(each**2 for each in known)
        law(squared <= course.task.max_merge * sum(known), "a source is in more than its claim says", course.key, known)


def account(world: World, course: Course, cohort: set[bytes]) -> None:
    """(law) Every acknowledged report is in the cohort, or left out with a reason."""
    task = course.key
    acknowledged = set().union(*(seat.must.get(key, set()) for seat in world.seats for key in course.keys))
    acknowledged |= set().union(*(seat.lost.get(key, set()) for seat in world.seats for key in course.keys))
    for report_id in acknowledged:
        if report_id in cohort:
            world.outcomes["report in the cohort"] += 1
            continue
        lacking = [each for each in course.servers if report_id not in course.lists[each]]
        if not lacking and course.all_reports[report_id].forged:
            world.outcomes["report left out: its proof was false"] += 1
            continue
        law(bool(lacking), "a report that every server listed is not in the cohort", task)
        seats = [world.seats[each] for each in lacking]
        if any(report_id in seat.lost.get(key, ()) for seat in seats for key in course.keys):
            world.outcomes["report left out: lost by a restore"] += 1
        else:
            held = any(report_id in seat.must.get(key, ()) for seat in seats for key in course.keys)
            law(not held, "a report was lost in silence", task)
            world.outcomes["report left out: a server never acknowledged it"] += 1
