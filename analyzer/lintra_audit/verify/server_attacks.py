"""Attacks on honest servers by lying servers, and by analyzers that forward other messages than they received."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lintra_audit.verify.actors import Actors, CheckShares
from lintra_audit.verify.adversarial_server import AdversarialServer, nonces_of
from lintra_audit.verify.attack_result import AttackResult
from lintra_audit.verify.client_attacks import MIN_CLIENTS, SPECIFICATION, Servers
from lintra_audit.verify.disabled_rules import UNLUCKY, early_matrix, unlucky_points
from lintra_audit.verify.malicious_reports import honest_reports, row_of
from lintra_audit.verify.one_word_leak import added, pair_in, rows_that_fit
from lintra_audit.verify.processes import ServerFolder, new_server_folder
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import ChecksMismatchError, LintraError, NonceMismatchError, TooManyRejectedError
from lintra_protocol.messages.documents import Cohort, Signed
from lintra_protocol.report.report import Report
from lintra_protocol.rules.release import check_seed
from lintra_protocol.rules.verification import parameters_of
from lintra_protocol.verification.points import Points, check_points

LIAR = 1
Said = tuple[str, bool]
"""What happened, and whether it is what the rule promises; or, without the rule, what the attack is for."""


@dataclass(frozen=True)
class Collection:
    """A frozen cohort at honest servers and one liar."""

    exchange: Actors
    liar: AdversarialServer
    reports: list[Report]
    cohorts: tuple[Signed[Cohort], ...]

    @classmethod
    def frozen(cls, places: Sequence[ServerFolder], count: int, **changes: object) -> "Collection":
        """Collect honest reports, and freeze them."""
        exchange = Actors.begin(places, {**SPECIFICATION, **changes}, [LIAR])
        reports = sorted(honest_reports(exchange.task, count), key=lambda report: report.report_id)
        liar = AdversarialServer(exchange, LIAR, reports)
        honest = [server for server in range(len(places)) if server != LIAR]
        for server in honest:
            exchange.upload(server, reports)
        inventories = [liar.inventory() if j == LIAR else exchange.inventory(j) for j in range(len(places))]
        lists = [liar.ids for _ in places]
        cohorts = [
            liar.cohort(inventories) if j == LIAR else exchange.cohort(j, inventories, lists)
            for j in range(len(places))
        ]
        return cls(exchange, liar, reports, tuple(cohorts))

    @property
    def seed(self) -> bytes:
        """Return the check seed."""
        cohort = self.cohorts[0].message
        return check_seed(self.exchange.task, 0, parse_base64url(cohort.root), nonces_of(self.cohorts))

    def checks(self, false: Sequence[int] = ()) -> tuple[CheckShares, list[bytes]]:
        """Return the check shares of all; the liar's are false for some places."""
        shares, bodies = [], []
        for server in range(len(self.exchange.places)):
            if server == LIAR:
                body = self.liar.lies_about(self.liar.body(check_points(self.seed)), false)
                share = self.liar.signed(self.cohorts[0].message, self.seed, body)
            else:
                share, body = self.exchange.check(server, self.cohorts)
            shares.append(share)
            bodies.append(body)
        return tuple(shares), bodies

    def without(self, places: Sequence[int]) -> ReportIds:
        """Return the cohort without some places."""
        return ReportIds.of(report.report_id for place, report in enumerate(self.reports) if place not in places)

    def sum_without(self, places: Sequence[int]) -> IntArray:
        """Return the sum of the rows that stand elsewhere, shape `(w,)`."""
        rows = [row_of(self.exchange.task, report) for place, report in enumerate(self.reports) if place not in places]
        total: IntArray = np.sum(rows, axis=0)
        return total


def false_check_shares(servers: Servers, kept: str | None = None) -> AttackResult:
    """Let a server declare reports false until only those are left that it chose."""
    chosen = list(range(20))

    def attack(places: Sequence[ServerFolder]) -> Said:
        collection = Collection.frozen(beside_liar(places), MIN_CLIENTS + len(chosen))
        try:
            verdict = collection.exchange.judge(0, *collection.checks(chosen))
        except TooManyRejectedError:
            return "more fail than the task allows, and there is no release", False
        worked = verdict.message.root == _root(collection.without(chosen))
        return f"left out {len(chosen)} honest reports of its choice, of {len(collection.reports)}", worked

    with servers(1, kept) as places:
        few = Collection.frozen(beside_liar(places), MIN_CLIENTS + 20)
        exactly = few.exchange.judge(0, *few.checks([4])).message.root == _root(few.without([4]))
        said, worked = attack(places)
    with servers(1, "limit") as places:
        broken = attack(places)
    return AttackResult(
        "false check shares", "server", "a server signs false check shares of the reports that it wants to be left out",
        "limit", f"of one false check share its report is left out, and no other; of 20 {said}", exactly and not worked,
        *broken,
    )  # fmt: skip


def two_bodies(servers: Servers, kept: str | None = None) -> AttackResult:
    """Let a server sign one body for one server, and another one for the other."""

    def attack(places: Sequence[ServerFolder]) -> Said:
        collection = Collection.frozen(beside_liar(places), MIN_CLIENTS + 8)
        exchange, (shares, bodies) = collection.exchange, collection.checks()
        false = collection.liar.lies_about(bodies[LIAR], [4])
        other = (shares[0], collection.liar.signed(collection.cohorts[0].message, collection.seed, false), shares[2])
        verdicts = {0: exchange.judge(0, shares, bodies), 2: exchange.judge(2, other, [bodies[0], false, bodies[2]])}
        agreed = (verdicts[0], collection.liar.verdict(collection.without([]), shares), verdicts[2])
        released = []
        for server in (0, 2):
            try:
                released.append(exchange.aggregate(server, agreed)[0])
            except ChecksMismatchError:
                return "the verdicts differ, so that neither honest server gives out its share", False
        released.append(collection.liar.words(collection.without([])).sum(axis=0, dtype=np.uint64))
        total = exchange.total(released)
        sums = [collection.sum_without(places) for places in ([], [4])]
        false_sum = all((total != each).any() for each in sums)
        return "both released what they added up over different reports, and the total is no sum of any", false_sum

    said, worked, broken = _both(servers, 2, kept, "agreement", attack)
    return AttackResult("two bodies", "server", "a server signs another body for each of the others", "agreement", said,
                   not worked, *broken)  # fmt: skip


def exchanged_bodies(servers: Servers, kept: str | None = None) -> AttackResult:
    """Let the analyzer carry other bodies than the servers signed."""
    victim = 4

    def attack(places: Sequence[ServerFolder]) -> Said:
        exchange = Actors.begin(places, SPECIFICATION)
        reports = sorted(honest_reports(exchange.task, MIN_CLIENTS + 8), key=lambda report: report.report_id)
        for server in range(2):
            exchange.upload(server, reports)
        shares, bodies = exchange.checks(exchange.freeze())
        carrier = AdversarialServer(exchange, LIAR, reports)
        false = [carrier.lies_about(body, [victim]) for body in bodies]
        try:
            verdicts = tuple(exchange.judge(server, shares, false) for server in range(2))
        except ChecksMismatchError:
            return "refused (checks_mismatch)", False
        total = exchange.total([exchange.aggregate(server, verdicts) for server in range(2)])
        left = np.sum([row_of(exchange.task, one) for place, one in enumerate(reports) if place != victim], axis=0)
        return "an honest report was left out, and no server signed a lie", bool((total[0] == left).all())

    said, worked, broken = _both(servers, 2, kept, "signed bodies", attack)
    with servers(1, kept) as places:
        collection = Collection.frozen(beside_liar(places), MIN_CLIENTS + 8)
        shares, bodies = collection.checks()
        unsigned = (shares[0], shares[1].model_copy(update={"signature": shares[0].signature}))
        refused = [
            _refused(lambda: collection.exchange.judge(0, shares, [bodies[0], b""])),
            _refused(lambda: collection.exchange.judge(0, unsigned, bodies)),
        ]
    return AttackResult(
        "exchanged bodies", "analyzer", "the analyzer shows another body than was signed, none, or an unsigned one",
        "signed bodies", f"{said}; a missing body: {refused[0]}; an unsigned one: {refused[1]}",
        not worked and None not in refused, *broken,
    )  # fmt: skip


def isolation(servers: Servers, kept: str | None = None) -> AttackResult:
    """Let a server that knows the matrix declare all other reports in a victim's row false."""
    changes = {
        "mechanism": {"kind": "osnap", "rows": 12, "clip_count_weight": 0},
        "min_clients": 60,
        "max_corrupt_clients": 0,
        "epsilon": 4,
    }
    victim = 7

    def attack(places: Sequence[ServerFolder]) -> Said:
        collection = Collection.frozen(beside_liar(places), 72, **changes)
        exchange, liar = collection.exchange, collection.liar
        root = parse_base64url(collection.cohorts[0].message.root)
        matrix = early_matrix(exchange.task, root, nonces_of(collection.cohorts), 72)
        rows, signs = (each[:, 0] for each in matrix.entries(np.arange(72)))
        others = [place for place in np.flatnonzero(rows == rows[victim]).tolist() if place != victim]
        shares, bodies = collection.checks(others)
        left = collection.without(others)
        verdict = exchange.judge(0, shares, bodies)
        honest = exchange.aggregate(0, (verdict, liar.verdict(left, shares)))
        own = [place for place in range(72) if place not in others].index(victim)
        sign = np.int64(signs[victim]).view(np.uint64)
        total = exchange.total([honest[rows[victim]], sign * liar.words(left)[own]])
        alone = bool((total * signs[victim] == row_of(exchange.task, collection.reports[victim])).all())
        what = f"left out the {len(others)} others of the victim's row in the early matrix"
        return f"{what}: the row of the release is {'the victim alone' if alone else 'as full as any other'}", alone

    said, worked, broken = _both(servers, 1, kept, "late matrix", attack)
    return AttackResult("isolation", "server",
                        "a server leaves out whoever would stand in the victim's row of the sketch", "late matrix",
                        said, not worked, *broken)  # fmt: skip


def bad_point(servers: Servers, kept: str | None = None) -> AttackResult:
    """Suppose that the first check point would be a root of -1."""

    def attack(places: Sequence[ServerFolder], *, skips: bool) -> Said:
        collection = Collection.frozen(beside_liar(places), MIN_CLIENTS + 2, columns=_ONE_COLUMN)
        points = unlucky_points(collection.seed, skips=skips)
        _, body = collection.exchange.check(0, collection.cohorts)
        return _candidates(collection, [points], [body])

    with servers(1, kept or UNLUCKY) as places:
        said, worked = attack(places, skips=kept != "usable points")
    with servers(1, "usable points") as places:
        broken = attack(places, skips=False)
    return AttackResult("a point without blinds", "analyzer", "the check point is a root of -1, by a chance of 2^-60",
                   "usable points", said, not worked, *broken)  # fmt: skip


def second_check(servers: Servers, kept: str | None = None) -> AttackResult:
    """Ask an honest server to check the same reports at a second point."""

    def attack(places: Sequence[ServerFolder]) -> Said:
        collection = Collection.frozen(beside_liar(places), MIN_CLIENTS + 2, columns=_ONE_COLUMN)
        exchange, liar, cohorts = collection.exchange, collection.liar, collection.cohorts
        _, first = exchange.check(0, cohorts)
        inventories = [exchange.inventory(0), liar.inventory()]
        again = (cohorts[0], liar.cohort(inventories, bytes(32)))
        root = parse_base64url(cohorts[0].message.root)
        seeds = [collection.seed, check_seed(exchange.task, 0, root, nonces_of(again))]
        try:
            _, second = exchange.check(0, again)
        except (NonceMismatchError, ChecksMismatchError) as error:
            return f"refused ({error.token})", False
        return _candidates(collection, [check_points(seed) for seed in seeds], [first, second])

    said, worked, broken = _both(servers, 1, kept, "one check", attack)
    return AttackResult("a second point", "server", "a server shows another nonce, to have reports checked once more",
                   "one check", said, not worked, *broken)  # fmt: skip


ATTACKS: dict[str, Callable[[Servers, str | None], AttackResult]] = {
    "false check shares": false_check_shares,
    "two bodies": two_bodies,
    "exchanged bodies": exchanged_bodies,
    "isolation": isolation,
    "a point without blinds": bad_point,
    "a second point": second_check,
}
"""By name."""

_ONE_COLUMN = [{"name": "a", "lower": -1, "upper": 1}]
_VICTIM = 3


def beside_liar(places: Sequence[ServerFolder]) -> list[ServerFolder]:
    """Return places of a task in which the audit plays one server."""
    return [places[0], new_server_folder(), *places[1:]]


def _both(
    servers: Servers, count: int, kept: str | None, rule: str, attack: Callable[[Sequence[ServerFolder]], Said]
) -> tuple[str, bool, Said]:
    """Attack servers that keep all rules, and others that lack one."""
    with servers(count, kept) as places:
        said, worked = attack(places)
    with servers(count, rule) as places:
        return said, worked, attack(places)


def _candidates(collection: Collection, points: Sequence[Points], bodies: Sequence[bytes]) -> Said:
    """Say which of 1,001 rows around a victim's may have given the checks that an honest server's bodies opened."""
    task, liar = collection.exchange.task, collection.liar
    row = int(row_of(task, collection.reports[_VICTIM])[0])
    opened = [
        added([pair_in(parameters_of(task), body, _VICTIM), liar.pair(_VICTIM, at[0])])
        for at, body in zip(points, bodies, strict=True)
    ]
    fit = rows_that_fit(parameters_of(task), range(row - 500, row + 501), points, opened)
    return f"{len(fit)} of 1,001 rows fit what is opened of a report", fit == [row]


def _refused(attempt: Callable[[], object]) -> str | None:
    """Return the token of the reason why an attempt is refused, or None if it is not."""
    try:
        attempt()
    except LintraError as error:
        return error.token
    return None


def _root(report_ids: ReportIds) -> str:
    return base64url(report_ids.root)
