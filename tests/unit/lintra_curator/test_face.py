"""The face of the curator's package: small, documented, lazily loaded, and every example in it runs."""

import doctest
import importlib
import inspect
import subprocess
import sys

import pytest

import lintra_curator

PROGRAM = """
import sys, lintra_curator
print(len([name for name in sys.modules if name.startswith("lintra_")]), "numpy" in sys.modules)
"""


@pytest.mark.parametrize("name", lintra_curator.__all__)
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    thing = getattr(lintra_curator, name)
    module = importlib.import_module(thing.__module__)
    tests = doctest.DocTestFinder(recurse=False).find(thing, name, module=module)
    examples = [test for test in tests if test.examples]
    assert examples, f"{name} has no example"
    for test in examples:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_importing_the_face_loads_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_the_face_lists_what_it_has_and_names_what_it_has_not() -> None:
    assert dir(lintra_curator) == sorted(lintra_curator.__all__)
    assert all(f"`{name}`" in inspect.getdoc(lintra_curator) for name in lintra_curator.__all__)
    with pytest.raises(AttributeError, match="no public name 'papers_of_others'"):
        lintra_curator.papers_of_others  # noqa: B018


def test_what_the_face_gives_out_is_defined_in_the_package_so_nothing_of_the_papers_is() -> None:
    # Modules are loaded in every order here: a sub-package must not take the place of a name of the face.
    for name in lintra_curator.__all__:
        importlib.import_module(getattr(lintra_curator, name).__module__)
    homes = {getattr(lintra_curator, name).__module__ for name in lintra_curator.__all__}
    assert all(home.startswith("lintra_curator.") for home in homes)
