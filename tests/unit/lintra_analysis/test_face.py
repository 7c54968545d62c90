"""The face of the analyst's library: what is public, that its examples run, and what it costs to load."""

import ast
import doctest
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

import lintra_analysis
from lintra_analysis import open_release
from lintra_analysis.access import rest_client
from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_protocol.errors import InvalidMessageError, InvalidReleaseError, UnauthorizedError
from support.analyzer_world import KEYS, TOKEN, living, seeded
from support.blocking import Bridge, Loop
from support.example_releases import example_releases

FUNCTIONS = {
    "anova",
    "chi_square",
    "connect",
    "correlation",
    "difference",
    "elastic_net",
    "partial_correlation",
    "f_test",
    "histogram",
    "iv",
    "linear_score",
    "logit",
    "logrank",
    "means",
    "open_release",
    "ordinary_slopes",
    "pca",
    "power_sums",
    "read_columns",
    "regression",
    "regression_path",
    "stream_trial",
    "survival",
    "synthesize",
    "trend",
    "trial",
    "wide_components",
    "wide_ridge",
    "wide_variances",
}
TYPES = {
    "AnalyzerClient",
    "ChiSquareEstimate",
    "CorrelationEstimate",
    "DifferenceEstimate",
    "ElasticNet",
    "PartialCorrelationEstimate",
    "FeatureTests",
    "HistogramEstimate",
    "InstrumentEstimate",
    "LinearScore",
    "LogisticEstimate",
    "LogrankEstimate",
    "MeansEstimate",
    "PcaEstimate",
    "PowerSumsEstimate",
    "Readings",
    "RegressionEstimate",
    "RegressionPath",
    "Release",
    "SurvivalEstimate",
    "SyntheticRows",
    "Timeline",
    "TrendEstimate",
    "WideComponents",
    "WideRidge",
    "WindowStream",
}
MOST_MODULES = 36


def public(name: str) -> object:
    """Return what is public under a name; `trial` is a package besides, which can be called as the function."""
    return getattr(import_module(f"lintra_analysis.{lintra_analysis._MODULES[name]}"), name)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Bridge]]:
    """A folder with the releases that docstrings open, and the analyzer that made them."""
    folder, loop = tmp_path_factory.mktemp("face"), Loop()
    context = living(folder / "world")
    life = loop.run(context.__aenter__())
    try:
        bridge = Bridge(life, loop)  # type: ignore[arg-type]
        made = loop.run(example_releases(life))  # type: ignore[arg-type]
        files = folder / "files"
        files.mkdir()
        with AnalyzerClient("http://analyzer.test", TOKEN, transport=bridge) as client:
            for name, release_id in made.items():  # type: ignore[attr-defined]
                client.download_release(release_id, files / name)
        yield files, bridge
    finally:
        loop.run(context.__aexit__(None, None, None))
        loop.close()


def test_the_functions_and_their_results_are_public_and_nothing_else() -> None:
    differs = set(lintra_analysis.__all__) ^ (FUNCTIONS | TYPES)
    assert not differs, f"in __all__ or in the lists of this test, and not in both: {sorted(differs)}"
    assert set(dir(lintra_analysis)) == FUNCTIONS | TYPES
    for name in FUNCTIONS:
        assert inspect.isfunction(public(name))
        assert callable(getattr(lintra_analysis, name))
    for name in TYPES:
        assert inspect.isclass(getattr(lintra_analysis, name))
    with pytest.raises(AttributeError, match="public are"):
        lintra_analysis.ridge_of_the_past  # noqa: B018


def test_type_checkers_and_python_find_a_public_name_in_the_same_module() -> None:
    tree = ast.parse(Path(lintra_analysis.__file__).read_text("utf-8"))
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name: f"lintra_analysis.{module}" for name, module in lintra_analysis._MODULES.items()} == seen


@pytest.mark.parametrize("name", ["", *sorted(FUNCTIONS | TYPES)])
@pytest.mark.grid(3)
def test_the_example_of_every_public_name_runs(
    examples: tuple[Path, Bridge], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, bridge = examples
    documented = public(name) if name else lintra_analysis  # before its module is changed below
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TOKEN", TOKEN)
    # The only thing that is not as in an analyst's session: how bytes travel to the analyzer, and the token's value.
    behind = partial(AnalyzerClient, transport=bridge)
    monkeypatch.setattr(rest_client, "AnalyzerClient", lambda url, _token: behind(url, TOKEN))
    found = doctest.DocTestParser().get_doctest(inspect.getdoc(documented) or "", {}, name, None, None)
    assert found.examples, f"{name} has no example"
    complaints: list[str] = []
    doctest.DocTestRunner(verbose=False).run(found, out=complaints.append)
    assert not complaints, "".join(complaints)


def test_an_example_that_is_wrong_would_be_noticed() -> None:
    found = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(found, out=lambda _: None).failed == 1


def test_importing_the_library_loads_nothing_and_a_regression_loads_few_modules() -> None:
    code = (
        "import sys, json\n"
        "count = lambda: sorted(name for name in sys.modules if name.startswith('lintra_'))\n"
        "import lintra_analysis; first = count()\n"
        "from lintra_analysis import regression\n"
        "heavy = [name for name in ('pydantic', 'httpx2', 'scipy.stats') if name in sys.modules]\n"
        "print(json.dumps([first, count(), heavy]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, loaded, heavy = json.loads(answer.stdout)
    assert first == ["lintra_analysis"]
    assert len(loaded) < MOST_MODULES, loaded
    assert heavy == []


def test_files_that_do_not_belong_together_are_refused(examples: tuple[Path, Bridge], tmp_path: Path) -> None:
    folder, _ = examples
    flights, people = folder / "flights.npz", folder / "people.npz"
    with pytest.raises(InvalidReleaseError, match="the stored numbers"):
        open_release(people, folder / "flights.json", folder / "flights.task.json")
    with pytest.raises(InvalidMessageError, match="the release is of"):
        open_release(flights, task=folder / "people.task.json")
    record = json.loads((folder / "flights.json").read_text("utf-8"))
    record["record"]["num_clients"] -= 1
    (tmp_path / "changed.json").write_text(json.dumps(record), "utf-8")
    with pytest.raises(UnauthorizedError):
        open_release(flights, tmp_path / "changed.json")
    (tmp_path / "list.json").write_text("[]", "utf-8")
    with pytest.raises(InvalidReleaseError, match="not a JSON object"):
        open_release(flights, tmp_path / "list.json")
    with pytest.raises(InvalidReleaseError, match="field 'record'"):
        open_release(flights, folder / "flights.task.json")


def test_a_key_that_the_analyst_trusts_decides_who_may_have_signed(examples: tuple[Path, Bridge]) -> None:
    flights = examples[0] / "flights.npz"
    assert open_release(flights, analyzer_key=KEYS.identity.public_key).num_clients == 240
    stranger = type(KEYS).generate(seeded("a stranger's keys"))
    with pytest.raises(UnauthorizedError):
        open_release(flights, analyzer_key=stranger.identity.public_key)
