"""The pages about releases: the certificate in words, the analyses that a release can give, and their pictures."""

import html
import re
import sys
from dataclasses import replace
from math import inf

import httpx2
import numpy as np
import pytest

from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.release import Release
from lintra_analyzer.tasks.populations import spent_together
from lintra_analyzer.web.analyses import ANALYSES
from lintra_analyzer.web.console.analyses import AnswerCache
from lintra_analyzer.web.console.analysis_forms import AnalysisForm, offer_of, offers_of
from lintra_analyzer.web.console.certificate import strongest_test
from lintra_analyzer.web.console.pages import POLICY
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.statement import PrivacyStatement
from support.analyzer_world import Life
from support.made_releases import columns, second_moment

HALF = PrivacyStatement(neighbours="replace-one", epsilon=1.0, delta=1e-5, mu=0.5)


async def released(life: Life, kind: str) -> str:
    """Return the release of a kind, which is made for the first test that asks."""
    for signed in life.records():
        if signed.record.mechanism == kind:
            return signed.record.release_id
    task = await life.create(kind)
    await life.upload(task)
    return await life.release(task)


async def seen(life: Life, path: str, **query: str) -> httpx2.Response:
    async with life.rest() as rest:
        return await rest.get(path, params=query or None)


async def test_the_page_of_a_release_says_the_promise_in_numbers_and_in_words(life: Life) -> None:
    release_id = await released(life, "second_moment")
    record = life.service.record(release_id).record
    text = html.unescape((await seen(life, f"/releases/{release_id}")).text)
    assert f"ε = {float(record.privacy.epsilon):.4g} at δ = 1e-05" in text
    found = strongest_test(record.privacy)
    assert found is not None
    assert f"they notice a change in at most {found:.1%} of cases" in text
    for line in record.privacy.not_promised:
        assert line[1:].replace("max_corrupt_clients", str(record.privacy.max_corrupt_clients)) in text
    assert release_id in (await seen(life, "/releases")).text


def test_a_release_offers_what_it_can_give_and_names_the_rest_with_the_reason() -> None:
    offered, refused = offers_of(Release(totals=Totals(columns(3), np.array([5.0, 6.0, 7.0]), 1.0, 40, 2.0)))
    kinds = [offer.kind for offer in offered]
    assert kinds == ["means"], f"a release of sums offers {kinds}"
    assert len(refused) == len(ANALYSES) - 1
    reasons = {one.offer.kind: one.reason for one in refused}
    assert reasons["wide-ridge"].startswith("this release is no range finder")
    assert reasons["histogram"].startswith("this release counts no rows in cells")
    assert all(reasons.values())
    second, _ = offers_of(Release(moments=second_moment(np.eye(5), 0.1, np.random.default_rng(1))))
    assert [offer.kind for offer in second] == [
        "regression", "anova", "f-test", "iv", "regression-path", "elastic-net", "pca", "correlation",
        "partial-correlation", "means",
    ]  # fmt: skip


def test_a_form_offers_only_columns_that_its_analysis_can_explain() -> None:
    plain = columns(3)
    ones = replace(plain[1], kind="boolean", lower=0.0, upper=1.0)
    release = Release(totals=Totals((plain[0], ones, plain[2]), np.array([5.0, 6.0, 7.0]), 1.0, 40, 2.0))
    assert offer_of("regression").form.explains(release) == [column.name for column in plain]
    assert offer_of("linear-score").form.explains(release) == [ones.name]


async def test_what_a_release_cannot_answer_is_said_where_the_answer_would_stand(life: Life) -> None:
    release_id = await released(life, "second_moment")
    text = html.unescape((await seen(life, f"/releases/{release_id}")).text)
    shown = set(re.findall(r'/analyses/([a-z-]+)"', text))
    tests = {"anova", "f-test", "iv"}
    paths = {"regression", "regression-path", "elastic-net"}
    assert shown == paths | {"pca", "correlation", "partial-correlation", "means"} | tests, f"offered: {sorted(shown)}"
    assert "<dt>Histograms and quantiles</dt><dd>This release counts no rows in cells" in text
    refused = await seen(life, f"/releases/{release_id}/analyses/histogram")
    assert refused.status_code == 400
    assert 'role="alert">This release counts no rows in cells' in refused.text
    assert "<img" not in refused.text


async def test_the_page_of_a_replay_names_what_a_sceptic_types_with_nothing_that_the_request_says(life: Life) -> None:
    release_id = await released(life, "second_moment")
    async with life.rest() as rest:
        rest.headers["host"] = "evil.example;reboot"
        text = (await rest.get(f"/releases/{release_id}/audit")).text
    assert f"<code>lintra analyzer download -- {release_id} audited</code>" in text
    assert "<code>lintra audit release --task audited.task.json</code>" in text
    assert "evil" not in text


async def test_an_answer_is_a_finding_a_picture_for_both_themes_and_a_table(life: Life) -> None:
    release_id = await released(life, "second_moment")
    path = f"/releases/{release_id}/analyses/regression"
    assert "<img" not in (await seen(life, path)).text  # the form alone
    page = await seen(life, path, target="a", features="b", of="cohort")
    text = html.unescape(page.text)
    (said,) = re.findall(r"<h2>Finding</h2>\s*<p>(.*?)</p>", text)
    assert said.startswith("Regression of a on b, from 24 rows, 95 % intervals for the cohort.")
    assert f'alt="{said}"' in text
    assert re.search(r'<th scope="row">b</th><td class="number">-?[0-9.e-]+</td>', text)
    assert "<option selected>a</option>" in text
    addresses = re.findall(r'(?:srcset|src)="([^"]+)"', text)
    drawings = [await seen(life, address) for address in addresses if "picture" in address]
    assert [one.headers["content-type"] for one in drawings] == ["image/svg+xml"] * 2
    assert drawings[0].content != drawings[1].content
    assert "script" not in drawings[0].headers["content-security-policy"]
    assert page.headers["content-security-policy"] == POLICY


async def test_without_matplotlib_a_page_has_words_and_table_and_says_what_to_install(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_id = await released(life, "second_moment")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = html.unescape((await seen(life, f"/releases/{release_id}/analyses/means")).text)
    assert "<img" not in text
    assert "pip install '.[plot]'" in text
    assert "<details open>" in text


async def test_the_files_of_an_answer_are_those_of_the_rest_interface(life: Life) -> None:
    release_id = await released(life, "second_moment")
    query = {"columns": ["a", "b"], "of": "cohort"}
    async with life.rest() as rest:
        body = {"kind": "correlation", **query}
        expected = await rest.post(f"/v1/releases/{release_id}/analyses", json=body, headers={"accept": "text/csv"})
        path = f"/releases/{release_id}/analyses/correlation/table"
        found = await rest.get(f"{path}.csv", params=query)
        others = [await rest.get(f"{path}.{ending}", params=query) for ending in ("npz", "parquet")]
        numbers = await rest.get(f"/releases/{release_id}/numbers.npz")
    assert found.text == expected.text
    assert "attachment" in found.headers["content-disposition"]
    assert [one.content[:4] for one in others] == [b"PK\x03\x04", b"PAR1"]
    assert numbers.content == life.service.archive.bytes_of(release_id)


async def test_a_form_that_does_not_fit_comes_back_with_the_complaint_and_what_was_filled_in(life: Life) -> None:
    release_id = await released(life, "second_moment")
    answer = await seen(life, f"/releases/{release_id}/analyses/regression", target="a", regularization="much")
    assert answer.status_code == 400
    assert "expected a number, got &#39;much&#39;" in answer.text
    assert 'value="much"' in answer.text
    unknown = await seen(life, f"/releases/{release_id}/analyses/oracle")
    assert unknown.status_code == 400
    assert "there is no page for" in unknown.text
    picture = await seen(life, f"/releases/{release_id}/analyses/pca/picture.svg", shown="x")
    assert picture.status_code == 400


def test_a_form_with_many_names_is_read_line_by_line_and_numbers_word_by_word() -> None:
    asked = AnalysisForm(offer_of("histogram"), [("columns", "a b\n\n c "), ("quantiles", "0.5, .9"), ("other", "x")])
    assert asked.values == {"columns": ["a b", "c"], "quantiles": ["0.5", ".9"]}
    assert asked.query == "columns=a+b&columns=c&quantiles=0.5&quantiles=.9"
    assert asked.request().options.model_dump()["quantiles"] == [0.5, 0.9]
    with pytest.raises(InvalidAnalysisError, match="a page"):
        AnalysisForm(offer_of("synthetic"), [("num_rows", "100001"), ("seed", "1")]).request()


async def test_what_is_kept_is_not_made_again_and_the_oldest_gives_way() -> None:
    made: list[str] = []

    async def make(name: str) -> str:
        made.append(name)
        return name

    kept: AnswerCache[str] = AnswerCache(2)
    for name in "abacab":
        assert await kept.get((name,), lambda name=name: make(name)) == name  # type: ignore[misc]
    assert made == ["a", "b", "c", "b"]
    assert len(kept) == 2


def test_promises_without_a_curve_are_added_as_they_are() -> None:
    point = PrivacyStatement(neighbours="replace-one", epsilon=2.0, delta=1e-5, mu=inf)
    both = spent_together([point, point])
    assert both is not None
    assert (both.epsilon, both.delta, both.without) == ("4", "0.00002", 2)
    assert strongest_test(point) is None
    assert strongest_test(HALF) == pytest.approx(0.1261, abs=1e-4)  # Phi(-1.6449 + .5)
