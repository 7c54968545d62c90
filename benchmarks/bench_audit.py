"""What the audits of releases find: how much of every claim an adversary proves, and which planted faults are caught.

    python benchmarks/bench_audit.py [--write]

Claims are those of `lintra audit release`, with its checks, at the seed of 64 zeros. `--runs` is the number of runs of
each world of an ordinary case; a case whose mu is small, so that it needs more, has eight times as many for each that
`lintra audit release` would give it. Faults are planted in audits of 20 other seeds, of half as many runs.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

from showing import Cell, Shown, parser, runs_of, show

from lintra_audit.release.cases import seams_of, standard_cases
from lintra_audit.release.run import MIN_TRIALS, Outcome, audit_case
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.likelihood_test import CONFIDENCE
from lintra_audit.trials.planted_faults import FAULTS
from lintra_protocol.crypto.randomness import derive_seed

SEED = bytes(32)
SEEDS = 20
"""Audits of each fault."""

SMALL_MU = 8
"""Runs of a case of small mu for one that the command would make of it."""

LARGE = 10
"""Runs of an audit in which a fault is planted that shows slowly, for one of those in which the others are."""

GENERAL: Mapping[tuple[str, str, bool], str] = MappingProxyType(
    {
        ("sigma", "pair", False): "noise of nine tenths of the deviation",
        ("sigma", "osnap", False): "the same",
        ("missing-noise", "pair", False): "one of two clients adds no noise",
        ("floating-point", "pair", False): "single-precision normal variates, scaled, then rounded",
        ("bound", "pair", False): "clients clip to 1.05 B",
        ("bound", "pair", True): "the same, more runs",
        ("shared-noise", "sum", False): "all clients draw from one stream",
        ("gate", "thin-row", False): "a row with one honest client is released",
        ("second-release", "twice", False): "the sum is released again without one client",
    }
)
"""Faults that any mechanism can have: what is planted, by name, case, and whether it takes more runs."""


@cache
def cases() -> Mapping[str, Case]:
    """Return all standard cases by name."""
    return MappingProxyType({case.name: case for case in standard_cases()})


def is_of_organisations(case: Case) -> bool:
    """Return whether a case is one of contributions."""
    return case.task.contributors is not None or case.name.startswith("organisations-")


def line(outcome: Outcome) -> tuple[Cell, ...]:
    """Return a case, what it claims, and what its audit proves; or the rule that refuses it."""
    named, claimed = f"`{outcome.case.name}`: {outcome.case.about}", outcome.statement
    if outcome.epsilon_lower is None or outcome.optimal is None or outcome.black_box is None:
        return named, None, None, None, None, None, None, f"refused: `{outcome.refusal}`"
    return (
        named,
        f"{claimed.epsilon:.3f}",
        f"{outcome.epsilon_lower:.3f}",
        f"{claimed.mu:.4f}",
        None if outcome.exact_mu is None else f"{outcome.exact_mu:.4f}",
        f"{outcome.optimal.mu:.4f}",
        f"{outcome.optimal.mu_lower:.4f}",
        f"{outcome.black_box.mu_lower:.4f}",
    )


def table(name: str, title: str, asked: Iterable[Case], runs: int) -> Shown:
    """Return what audits of some cases show.

    Raises:
        SystemExit: an audit contradicts its claim, which no table shows as if it were nothing.
    """
    outcomes = [audit_case(case, runs * (SMALL_MU if case.effort > 1 else 1), SEED) for case in asked]
    if wrong := [outcome.case.name for outcome in outcomes if not outcome.passed]:
        raise SystemExit(f"these contradict their claims: {', '.join(wrong)}")
    return Shown(
        name,
        title,
        ("case", "epsilon claimed", "at least", "mu claimed", "of the rows", "measured", "at least", "learned"),
        tuple(line(outcome) for outcome in outcomes),
        " ".join(_said(outcomes, runs)),
    )


def _said(outcomes: list[Outcome], runs: int) -> Iterator[str]:
    """Yield sentences about all cases of a table."""
    most = max(outcome.case.effort for outcome in outcomes)
    small = f", {runs * SMALL_MU * most:,} where mu is small" if most > 1 else ""
    yield f"{runs:,} runs of each world{small}."
    yield f"Every bound on an error rate holds with {CONFIDENCE * 100:.1f} %."
    gaussian = [
        outcome.epsilon_lower / outcome.statement.epsilon
        for outcome in outcomes
        if outcome.epsilon_lower is not None and outcome.exact_mu is not None and outcome.statement.epsilon >= 1
    ]
    yield f"Of every claim with Gaussian noise and an epsilon of 1 or more the audit proves {_percent(min(gaussian))}"
    yield "or more."
    rare = [
        max(outcome.optimal.mu_lower, outcome.black_box.mu_lower) / outcome.statement.mu
        for outcome in outcomes
        if outcome.optimal and outcome.black_box and outcome.case.task.mechanism.kind == "second_moment_wishart"
    ]
    if rare:
        yield f"Of the mu stated of Wishart noise it proves {_percent(min(rare))} to {_percent(max(rare))}."
    for outcome in outcomes:
        if outcome.published_refuted and outcome.published_epsilon is not None:
            yield f"`{outcome.case.name}` refutes the published epsilon of {outcome.published_epsilon:g}."


def _percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def faults(runs: int, seeds: int = SEEDS, only: Container[str] = FAULTS) -> Shown:
    """Return how often each fault that any mechanism can have is caught, and by which checks."""
    rows = []
    for (fault, name, is_slow), about in GENERAL.items():
        if fault not in only:
            continue
        each = runs * LARGE if is_slow else runs
        found = [
            audit_case(cases()[name], each, derive_seed(SEED, "power", bytes([k])), seams_of(fault))
            for k in range(seeds)
        ]
        by = Counter(check.name for outcome in found for check in outcome.checks if not check.passed)
        mu = found[0].exact_mu
        rows.append(
            (
                f"`{fault}`",
                about,
                f"`{name}`",
                each * cases()[name].effort,
                sum(not outcome.passed for outcome in found),
                "; ".join(f"{check} {count}" for check, count in by.most_common()),
                f"{found[0].statement.mu:.2f}",
                None if mu is None else f"{mu:.2f}",
            )
        )
    return Shown(
        "audit-faults",
        f"Of {seeds} audits of a fault, how many fail",
        ("fault", "what is planted", "case", "runs", "caught", "by", "mu claimed", "mu of what is released"),
        tuple(rows),
        "The last column is what Theorem 1 gives for the requests that were granted, with the noise as the task states "
        "it.",
    )


def parts(runs: int, seeds: int = SEEDS) -> dict[str, Callable[[], Shown]]:
    """Return the tables by name."""
    alone = [case for case in cases().values() if not is_of_organisations(case)]
    together = [case for case in cases().values() if is_of_organisations(case)]
    return {
        "audit-rows": lambda: table("audit-rows", "Audits of clients with one row each", alone, runs),
        "audit-organisations": lambda: table(
            "audit-organisations", "Audits of organisations with many rows each", together, runs
        ),
        "audit-faults": lambda: faults(max(runs // 2, MIN_TRIALS), seeds),
    }


def main() -> None:
    """Show them."""
    asking = parser(__doc__, 20_000, 200_000)
    asking.add_argument("--seeds", type=int, default=SEEDS, help="audits of every planted fault")
    asked = asking.parse_args()
    show(parts(max(runs_of(asked), MIN_TRIALS), asked.seeds), asked)


if __name__ == "__main__":
    main()
