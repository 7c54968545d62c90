"""The shape of the house: no circles, no import that runs back up, few rooms and floors, and one way to ask.

What these words mean is said in `support.import_graph`.
"""

import ast
from collections.abc import Mapping

import pytest

from support.import_graph import Graph, circles, floors, house, import_graph, rooms_of, sources, upward
from support.sources import parsed, statements

# package: most rooms, most floors. What a package has today, rounded up to the figures that were set for it.
LIMITS = {"lintra_analysis": (10, 7), "lintra_analyzer": (12, 7), "lintra_server": (12, 7)}
HOUSE_FLOORS = 5

# What still has to be turned round, by package; nothing may be added, and a package that is done leaves.
STILL_UPWARD: dict[str, set[str]] = {}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(sources())


def packages(graph: Graph) -> list[str]:
    return sorted({module.partition(".")[0] for module in graph})


def test_no_modules_import_each_other_in_a_circle(graph: Graph) -> None:
    assert circles(graph) == []


def test_no_import_between_the_rooms_of_a_package_runs_back_up(graph: Graph) -> None:
    found = {package: set(upward(rooms_of(graph, package))) for package in packages(graph)}
    assert not {name: bad for name, all_ in found.items() if (bad := all_ - STILL_UPWARD.get(name, set()))}


def test_no_import_between_packages_runs_back_up_and_the_house_has_few_floors(graph: Graph) -> None:
    assert max(floors(house(graph)).values()) <= HOUSE_FLOORS


@pytest.mark.parametrize("package", sorted(LIMITS))
def test_a_package_has_no_more_rooms_and_floors_than_it_was_given(graph: Graph, package: str) -> None:
    rooms = rooms_of(graph, package)
    most_rooms, most_floors = LIMITS[package]
    assert len(rooms) <= most_rooms, sorted(rooms)
    assert max(floors(rooms).values()) <= most_floors, floors(rooms)


def test_a_planted_circle_is_reported() -> None:
    planted = {"p": "", "p.a": "from p.b import x", "p.b": "def f():\n    from p import c", "p.c": "import p.a"}
    assert circles(import_graph(planted)) == [("p.a", "p.b", "p.c")]
    assert circles(import_graph({**planted, "p.c": ""})) == []


def test_a_planted_import_that_runs_back_up_is_reported_though_no_modules_form_a_circle() -> None:
    planted = {"p": "", "p.low.one": "", "p.low.two": "from p.high import x", "p.high": "from p.low.one import y"}
    found = import_graph(planted)
    assert circles(found) == []
    assert upward(rooms_of(found, "p")) == ["high -> low", "low -> high"]
    with pytest.raises(ValueError, match="high -> low"):
        floors(rooms_of(found, "p"))


def test_floors_are_counted_from_the_ground() -> None:
    planted = {"p": "", "p.a": "", "p.b": "if TYPE_CHECKING:\n    from p.a import A", "p.c": "import p.a, p.b"}
    assert floors(rooms_of(import_graph(planted), "p")) == {"a": 1, "b": 2, "c": 3}


def test_every_package_of_the_house_is_looked_at(graph: Graph) -> None:
    assert {"lintra_protocol", "lintra_client", "lintra_server", "lintra_analysis", "lintra_analyzer"} <= set(
        packages(graph)
    )


# --- one way to ask -------------------------------------------------------------------------------------------

ROOTS = {"Mechanism", "Estimate"}
"""Classes whose kinds are told apart by a table or a method, never by asking for the class; releases are found."""


def classes_of(source: str) -> list[ast.ClassDef]:
    """Return the classes that a module defines."""
    return [node for node in statements(parsed(source)) if isinstance(node, ast.ClassDef)]


def kinds_of(modules: Mapping[str, str]) -> set[str]:
    """Return the names of mechanisms, answers, releases and their parts: what has a `second_moment` or a `table`."""
    classes = {node.name: node for source in modules.values() for node in classes_of(source)}
    bases = {name: {_last(base) for base in node.bases} for name, node in classes.items()}
    found = ROOTS & classes.keys() | {
        name
        for name, node in classes.items()
        if any(isinstance(each, ast.FunctionDef) and each.name in {"second_moment", "table"} for each in node.body)
    }
    while more := {name for name in classes if bases[name] & found} - found:
        found |= more
    return found


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def asked_kinds(source: str, kinds: set[str]) -> list[str]:
    """Return which of the classes a module asks for, by `isinstance`, `issubclass`, a pattern or `type(..) is`."""
    asked: list[ast.AST] = []
    if not any(word in source for word in ("isinstance", "issubclass", "match ", " is ", " == ", " in ")):
        return []
    if not any(kind in source for kind in kinds):
        return []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"isinstance", "issubclass"}:
            asked += node.args[1:]
        elif isinstance(node, ast.MatchClass):
            asked.append(node.cls)
        elif isinstance(node, ast.Compare):
            asked += node.comparators
    names = (_last(inner) for each in asked for inner in ast.walk(each) if isinstance(inner, ast.Name | ast.Attribute))
    return sorted({name for name in names if name in kinds})


def test_no_module_asks_which_mechanism_release_or_answer_it_was_given() -> None:
    modules = sources()
    kinds = kinds_of(modules)
    assert {"WishartSecondMoment", "Sketch", "CentralSecondMoment", "ProjectedSums", "SyntheticEstimate"} <= kinds
    found = {module: asked for module, source in modules.items() if (asked := asked_kinds(source, kinds))}
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(task.mechanism, WishartSecondMoment)",
        "isinstance(release, (int, releases.Sketch))",
        "issubclass(kind, Sketch | int)",
        "type(release) is Sketch",
        "match release:\n    case Sketch():\n        pass",
    ],
)
def test_a_planted_question_is_reported(line: str) -> None:
    assert asked_kinds(line, {"Sketch", "WishartSecondMoment"})
    assert not asked_kinds(line, {"Other"})


def test_privacy_is_promised_by_a_claim_and_stated_by_a_statement_and_by_no_third_type() -> None:
    words = ("claim", "promise", "privacy", "statement", "guarantee")
    found = {
        f"{module}.{node.name}"
        for module, source in sources().items()
        for node in classes_of(source)
        if any(word in node.name.lower() for word in words)
    }
    assert found == {
        "lintra_protocol.privacy.statement.Claim",
        "lintra_protocol.privacy.statement.PrivacyStatement",
        # The same, where epsilon needs no delta.
        "lintra_protocol.privacy.pure.PureStatement",
        # An error, a whole curve, a comparison of noise levels, and linear statements about coefficients.
        "lintra_protocol.errors.FalseClaimError",
        "lintra_curator.ndis.profile.PrivacyProfile",
        "lintra_analysis.estimators.concentrated.hyperplanes.Statements",
        # Figures of several releases together, each of which has its own statement.
        "lintra_analysis.trial.error_forecast.ComposedPrivacy",
        "lintra_analyzer.tasks.populations.PopulationPrivacy",
    }
