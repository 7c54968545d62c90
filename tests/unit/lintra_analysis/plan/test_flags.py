"""One calibration: a plan from flags has the mechanism of the task that the same specification makes."""

from dataclasses import replace

import pytest

from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.planned import planned_mechanism
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.spec.build_task import build_task
from lintra_protocol.errors import LintraError
from lintra_protocol.mechanisms import MECHANISMS
from lintra_protocol.task import ServerEntry
from support import identity
from support.analyzer_world import KEYS, NOW

COHORTS = (20, 50, 59, 60, 100, 1000, 10_000, 100_000)
SERVERS = tuple(
    ServerEntry(url=f"http://server-{index}.test", identity_key=identity(f"server {index}").public_key)
    for index in range(3)
)
PUBLISHED = {"osnap_published": {"rows": 2, "corrupt": 0, "epsilon": "4", "delta": "0.0001"}}


def outcome_of_task(kind: str, flags: PlanFlags) -> object:
    """Return the mechanism of the task that the flags' specification makes, or why there is none."""
    try:
        return build_task(flags.specification(kind), SERVERS, KEYS.public_keys, NOW, bytes).mechanism.model_dump()
    except LintraError as error:
        return str(error)


def outcome_of_plan(kind: str, flags: PlanFlags) -> object:
    """Return the mechanism of a plan, its public frame made as in a task; of two rounds that of the first."""
    context = replace(flags.context(kind), makes_frame=True)
    try:
        if KINDS[kind].spec is None:
            return KINDS[context.options.kind].build(context).mechanism.model_dump()
        return planned_mechanism(kind, context).mechanism.model_dump()
    except LintraError as error:
        return str(error)


def grid() -> list[object]:
    """Return every kind with every cohort; Wishart noise takes seconds to calibrate."""
    every = [(kind, clients) for kind in sorted(MECHANISMS) for clients in COHORTS]
    slow = {("second_moment_wishart", clients) for clients in COHORTS if clients != 1000}
    return [pytest.param(*both, marks=[pytest.mark.slow] * (both in slow)) for both in every]


@pytest.mark.parametrize(("kind", "clients"), grid())
@pytest.mark.grid(3)
def test_a_plan_has_the_mechanism_of_its_task(kind: str, clients: int) -> None:
    options = PUBLISHED.get(kind, {})
    for neighbours in ("replace-one", "zero-out"):
        flags = replace(PlanFlags(columns=4, clients=clients, neighbours=neighbours), **options)  # type: ignore[arg-type]
        outcome = outcome_of_plan(kind, flags)
        assert outcome == outcome_of_task(kind, flags)
        assert isinstance(outcome, dict) or clients < 1000


@pytest.mark.parametrize("kind", ["sum", "second_moment", "osnap"])
@pytest.mark.parametrize("clients", [20, 59, 1000])
def test_a_plan_for_noise_by_servers_has_the_mechanism_of_its_task(kind: str, clients: int) -> None:
    flags = PlanFlags(columns=4, clients=clients, noise="servers", intercept="0.25", trace=True)
    assert outcome_of_plan(kind, flags) == outcome_of_task(kind, flags)
    assert isinstance(outcome_of_plan(kind, flags), dict)


def test_what_the_flags_leave_open_the_task_fills_in() -> None:
    small = PlanFlags(columns=4, clients=50).planned("osnap").mechanism
    assert small.num_rows == 2
    noisy = PlanFlags(columns=4, clients=1000, count="noisy").planned("second_moment").mechanism
    assert noisy.model_dump()["intercept"] == "0.5"
    assert len(PlanFlags(columns=2).planned("histogram").mechanism.model_dump()["edges"][0]) == 65
