"""Runs one audit: draws the matrix, finds the worst victim, runs both worlds, and compares them with the claim."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lintra_audit.kinds.kind_audit import AUDITS
from lintra_audit.release.checks import Check, check_encoder, check_lattice, check_law
from lintra_audit.release.contributions import Contributions
from lintra_audit.release.streams import measure_stream
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.likelihood_test import Bound, OptimalTest, black_box_bound, threshold_bound
from lintra_audit.trials.neighbours import worlds
from lintra_audit.trials.simulated_release import (
    HONEST,
    Draw,
    DrawnRelease,
    Scene,
    Seams,
    draw_rows,
    exact_reports,
    request_release,
    run_reports,
    set_scene,
)
from lintra_protocol.crypto.randomness import derive_seed, expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import LintraError
from lintra_protocol.privacy.pure import PureStatement
from lintra_protocol.privacy.statement import PrivacyStatement

MIN_TRIALS = 2000


@dataclass(frozen=True)
class Outcome:
    """The result of one case."""

    case: Case
    statement: PrivacyStatement  #: the claim: that of the release, or of the smallest cohort the task allows
    refusal: str | None = None  #: the token of the rule that refused the last request, if one did
    #: mu of Theorem 1 for the matrix that was drawn, the worst victim and the coalition found
    exact_mu: float | None = None
    optimal: Bound | None = None  #: the bound from the likelihood ratio of the claimed mechanism
    black_box: Bound | None = None  #: the bound from a test that was learned from the runs
    checks: list[Check] = field(default_factory=list)  #: all other checks with their results

    @property
    def epsilon_lower(self) -> float | None:
        """Return the larger lower bound on epsilon at the claim's delta, or None if nothing was released."""
        if self.optimal is None or self.black_box is None:
            return None
        pure = isinstance(self.statement, PureStatement)
        return max(bound.epsilon_lower(self.statement.delta, pure=pure) for bound in (self.optimal, self.black_box))

    @property
    def published_epsilon(self) -> float | None:
        """Return the epsilon that a published calibration claims to give, or None for any other mechanism."""
        claimed = AUDITS[self.case.task.mechanism.kind].claimed_elsewhere(self.case.task.mechanism)
        return None if claimed is None else float(fraction(claimed))

    @property
    def published_refuted(self) -> bool | None:
        """Return whether the runs refute the published claim; None if there is none. The verdict does not use it.

        A small number of runs does not refute a claim, true or false.
        """
        if self.published_epsilon is None or self.epsilon_lower is None:
            return None
        return self.epsilon_lower > self.published_epsilon

    @property
    def passed(self) -> bool:
        """Return whether nothing contradicts the claim."""
        return all(check.passed for check in self.checks)


class Subject(Protocol):
    """The subject of a case: whose reports differ between the worlds, and which checks are exact."""

    def admit(self, seams: Seams) -> None:
        """Refuse what a rule forbids before anything is released (raises LintraError)."""

    def draw(self, scene: Scene, world: int, seams: Seams, *, near: bool) -> Draw:
        """Return how all reports of a world are drawn, of the farthest neighbours or of near ones."""

    def test(self, scene: Scene) -> OptimalTest:
        """Form the adversary's optimal test of the farthest neighbours."""

    def checks(self, seams: Seams) -> list[Check]:
        """Return what is exact."""


@dataclass(frozen=True)
class TrialRows:
    """Clients with one row each, of which one changes."""

    case: Case

    def admit(self, seams: Seams) -> None:
        """Refuse nothing: the task was checked when it was made."""

    def draw(self, scene: Scene, world: int, seams: Seams, *, near: bool) -> Draw:
        """Return how all clients' reports of a world are drawn."""
        rows = (near_rows if near else far_rows)(self.case, scene.victim)[world]
        null = self.case.task.claim.neighbours == "zero-out" and world == 0 and not near
        return draw_rows(scene, rows, seams, null=null)

    def test(self, scene: Scene) -> OptimalTest:
        """Return the mechanism's own."""
        return AUDITS[self.case.task.mechanism.kind].test(scene, far_reports(self.case, scene.victim))

    def checks(self, seams: Seams) -> list[Check]:
        """Return how far hostile rows reach."""
        return [check_encoder(self.case.task, seams)]


def audit_case(case: Case, trials: int, seed: bytes, seams: Seams = HONEST) -> Outcome:
    """Audit one case.

    `trials` are runs of each world, at least `MIN_TRIALS`; multiplied by the case's effort. `seed` is 32 bytes; equal
    ones give equal results. `seams` are the pipeline, possibly with a fault planted. Raises ValueError if these are too
    few trials.
    """
    if trials < MIN_TRIALS:
        raise ValueError(f"an audit needs at least {MIN_TRIALS} runs of each world, got {trials}")
    seed = derive_seed(seed, "audit", case.name.encode())
    if case.task.stream is not None:
        found = measure_stream(case.task, trials * case.effort, seed, seams.windows)
        return Outcome(case, case.task.worst_together(), None, *found)
    subject: Subject = TrialRows(case) if case.task.contributors is None else Contributions(case)
    releases, refusal = _ask(case, subject, seed, seams)
    checks = []
    if case.must_refuse:
        checks.append(Check("refusal", refusal is not None, refusal or "released what the rules refuse"))
    if not releases or (case.must_refuse and refusal):
        return Outcome(case, _claimed(case, releases), refusal, checks=checks)
    scene = set_scene(case.task, case.num_clients, releases, alone=case.alone)
    outcome = Outcome(case, _claimed(case, releases), refusal, checks=checks)
    return _measure(outcome, scene, subject, trials * case.effort, seed, seams)


def _ask(case: Case, subject: Subject, seed: bytes, seams: Seams) -> tuple[list[DrawnRelease], str | None]:
    """Make the case's requests in order until one is refused; return what was released, and the refusal."""
    releases: list[DrawnRelease] = []
    released: set[int] = set()
    try:
        subject.admit(seams)
    except LintraError as error:
        return releases, error.token
    for clients in case.requests():
        try:
            releases.append(request_release(case.task, clients, released, seed, seams))
        except LintraError as error:
            return releases, error.token
    return releases, None


def _claimed(case: Case, releases: list[DrawnRelease]) -> PrivacyStatement:
    """Return the claim: that of the release for its matrix, or that of the task if the release was refused."""
    task = case.task
    promised = (task.alone_privacy() if case.alone else None) or task.privacy(task.claim.min_clients)
    if not releases or case.alone:
        return promised
    try:
        released = task.release_privacy(releases[0].matrix)
        released.require(task.claim)
    except LintraError:
        return promised
    return released


def far_rows(case: Case, victim: int) -> tuple[FloatArray, FloatArray]:
    """Return the normalised rows of world 0 and world 1, each of shape `(clients, d)`: worst-case neighbours.

    Against the null report world 0 holds a row of zeros in its place, of which `run_world` leaves the noise alone.
    """
    pair = AUDITS[case.task.mechanism.kind].farthest(case.task)
    if case.task.claim.neighbours == "zero-out":
        pair = (np.zeros(case.task.num_columns), pair[1])
    return worlds(case.task, case.num_clients, victim, pair)


def near_rows(case: Case, victim: int) -> tuple[FloatArray, FloatArray]:
    """Return rows in the shapes of `far_rows`; the victim's rows differ as little as possible."""
    return worlds(case.task, case.num_clients, victim, AUDITS[case.task.mechanism.kind].nearest(case.task))


def far_reports(case: Case, victim: int) -> tuple[IntArray, IntArray]:
    """Return all clients' noiseless reports in both worlds, each of shape `(clients, w)`."""
    first, second = (exact_reports(case.task.measurement, rows) for rows in far_rows(case, victim))
    if case.task.claim.neighbours == "zero-out":
        first[victim] = 0
    return first, second


def _measure(outcome: Outcome, scene: Scene, subject: Subject, trials: int, seed: bytes, seams: Seams) -> Outcome:
    """Run both worlds, then the two worlds one step apart, and add what they show."""
    case, test = outcome.case, subject.test(scene)
    few = max(trials // 4, MIN_TRIALS)
    runs = [
        run_reports(scene, subject.draw(scene, world, seams, near=False), trials, expand(seed, f"world {world}"), seams)
        for world in range(2)
    ]
    adjacent = [
        run_reports(scene, subject.draw(scene, world, seams, near=True), few, expand(seed, f"adjacent {world}"), seams)[
            0
        ]
        for world in range(2)
    ]
    released = (runs[0][0], runs[1][0])
    optimal = threshold_bound((test.scores(released[0]), test.scores(released[1])), 0.0)
    black_box = black_box_bound((_view(*runs[0]), _view(*runs[1])))
    checks = [
        *outcome.checks,
        _within("optimal test", optimal, outcome.statement),
        _within("black box", black_box, outcome.statement),
        *subject.checks(seams),
        check_lattice(scene, (adjacent[0], adjacent[1])),
        check_law(scene, released),
    ]
    return Outcome(case, outcome.statement, outcome.refusal, test.mu, optimal, black_box, checks)


def _view(released: IntArray, reports: IntArray) -> IntArray:
    """Return all numbers that the adversary sees in each run, shape `(trials, numbers)`."""
    return np.hstack([released.reshape(len(released), -1), reports.reshape(len(reports), -1)])


def _within(name: str, bound: Bound, statement: PrivacyStatement) -> Check:
    """Compare what a test proves with what is stated: mu, or of a pure statement epsilon, which says more."""
    if isinstance(statement, PureStatement):
        proven, claimed, what = bound.epsilon_lower(statement.delta, pure=True), statement.epsilon, "epsilon"
    else:
        proven, claimed, what = bound.mu_lower, statement.mu, "mu"
    return Check(name, proven <= claimed, f"{what} is at least {proven:.4f}, claimed {claimed:.4f}")
