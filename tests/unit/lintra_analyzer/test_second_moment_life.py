"""Second moments with every option from the analyst's request through servers to an analysis, over REST."""

import numpy as np
import pytest

from lintra_analysis.kinds.decode import read
from support.analyzer_world import CLIENTS, Life, clients

BOTH = {"mechanism": {"kind": "second_moment", "intercept": 0.5, "trace": True}, "epsilon": 10}
WISHART = {"mechanism": {"kind": "second_moment_wishart"}, "min_clients": CLIENTS, "neighbours": "zero-out"}


async def released(life: Life, changes: dict[str, object]) -> str:
    task = await life.create(**changes)
    await life.upload(task, CLIENTS)
    return await life.release(task)


async def analysis(life: Life, release_id: str, body: dict[str, object]) -> dict[str, object]:
    async with life.rest() as rest:
        answer = await rest.post(f"/v1/releases/{release_id}/analyses", json=body)
    assert answer.status_code == 200, answer.text
    result: dict[str, object] = answer.json()["result"]
    return result


async def test_with_an_intercept_one_release_holds_means_and_regressions_with_a_constant(life: Life) -> None:
    rows = np.array([row for row, _ in clients(CLIENTS)])
    release_id = await released(life, BOTH)
    means = await analysis(life, release_id, {"kind": "means", "of": "cohort"})
    regression = await analysis(life, release_id, {"kind": "regression", "target": "a"})
    found = means["means"]
    assert isinstance(found, list)
    for mean, truth in zip(found, rows.mean(axis=0), strict=True):
        # Six deviations, about 0.06 each.
        assert abs(mean["value"] - truth) < 6 * mean["standard_error"]["total"] < 0.5
    assert regression["intercept_fitted"] is True
    assert regression["features"] == ["b", "c"]


@pytest.mark.parametrize("changes", [BOTH, WISHART], ids=["both options", "wishart"])
@pytest.mark.grid(2)
async def test_what_the_analyst_reads_is_what_one_function_computes(life: Life, changes: dict[str, object]) -> None:
    release_id = await released(life, changes)
    record = life.service.record(release_id).record
    task = life.service.task(record.task_id)
    release = read(task, *life.service.archive.read(record))
    ideal = life.ideal(task).values
    found = np.array(release.need("moments").values)
    # The square of the constant is not sent: the analyzer fills it in.
    found[0, 0] = ideal[0, 0] if changes is BOTH else found[0, 0]
    np.testing.assert_allclose(found, ideal, rtol=1e-12)
    assert record.noise.step_bits == 2 * task.mechanism.fraction_bits
    assert record.plausibility.flagged_rows == ()
    assert (float(record.privacy.delta_coalition) > 0) == (changes is WISHART)
    assert float(record.privacy.epsilon) <= float(task.claim.epsilon)
