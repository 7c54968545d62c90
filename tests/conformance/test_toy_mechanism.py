"""A new mechanism is six files and a word: those of `first_column` stand in `toy`, at their places in the repository.

`first_column` releases the noisy total of the first column. Most tests here load its modules into this process, where
`added` puts it beside the product's own mechanisms; then everything works: plan, task, client, three servers, release,
reading and both audits. The last one copies the repository, adds the six files and the word, and demands that the tests
of the copy pass.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from shutil import copy2
from types import ModuleType

import pytest

from lintra_analysis.kinds.decode import read
from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.plan.flags import PlanFlags
from lintra_audit.kinds.kind_audit import AUDITS
from lintra_audit.release.cases import cases_of_task
from lintra_audit.release.run import audit_case
from lintra_audit.task.cli import audit_task
from lintra_audit.trials.audit_case import make_case_task
from lintra_client import Client
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.task import Task
from support import uncalibrated
from support.analyzer_world import CLIENTS, NOW, clients, living
from support.kinds import added
from support.seeds import SEED
from support.tasks import TRUSTING

ROOT = Path(__file__).resolve().parents[2]
TOY = Path(__file__).with_name("toy")
MECHANISM = "protocol/lintra_protocol/mechanisms/first_column.py"
MODULES = {
    "lintra_protocol.mechanisms.first_column": MECHANISM,
    "lintra_analysis.kinds.first_column": "analyzer/lintra_analysis/kinds/first_column.py",
    "lintra_audit.kinds.first_column": "analyzer/lintra_audit/kinds/first_column.py",
    "kinds.first_column": "tests/kinds/first_column.py",
}
PAGE = "docs/reference/mechanisms/first_column.md"
LIST = "protocol/lintra_protocol/mechanisms/__init__.py"
VECTORS = "tests/vectors/release.json"


def loaded(name: str) -> ModuleType:
    """Load a module of the toy under the name that it would have in the product."""
    spec = spec_from_file_location(name, TOY / MODULES[name])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    try:
        modules = {name: loaded(name) for name in MODULES}
        kind = modules["lintra_analysis.kinds.first_column"].KIND
        audit = modules["lintra_audit.kinds.first_column"].AUDIT
        with added("first_column", kind.mechanism, [(KINDS, kind), (AUDITS, audit)]):
            yield
    finally:
        for name in MODULES:
            sys.modules.pop(name, None)


def made(min_clients: int = 12) -> Task:
    return make_case_task(uncalibrated("first_column"), num_columns=3, min_clients=min_clients)


def test_it_is_planned_for() -> None:
    option = PlanFlags(columns=3, clients=1000).planned("first_column")
    assert option.mechanism.kind == "first_column"
    assert option.deviations["sum"] > 0
    assert option.report_bytes["uniform"] > 0


def test_its_tasks_are_read_from_bytes_and_checked() -> None:
    task = made()
    again = Task.from_canonical(task.canonical())
    assert again == task
    assert again.mechanism.kind == "first_column"
    again.check()


async def test_it_is_asked_for_sent_to_three_servers_released_and_read(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await life.create("first_column")
        await life.upload(task)
        urls = [entry.url for entry in task.servers]
        async with Client(
            task.task_id, urls, policy=TRUSTING, ledger=None, transport=life.wires, now=lambda: NOW
        ) as client:
            await client.send({"a": 0.25, "b": 0.5, "c": -0.5})
        record = life.service.record(await life.release(task)).record
        release = read(task, *life.service.archive.read(record))
    totals = release.totals
    assert totals is not None
    assert [column.name for column in totals.columns] == ["a"]
    assert record.num_clients == CLIENTS + 1
    truth = sum(row[0] for row, _ in clients(CLIENTS)) + 0.25
    # Six deviations of the noise that the release says it has.
    assert abs(float(totals.values[0]) - truth) < 6 * totals.noise_sd


def test_both_audits_know_it_and_less_noise_is_caught() -> None:
    (case,) = AUDITS["first_column"].cases()
    assert audit_case(case, 4000, SEED).passed
    outcome = audit_case(case, 4000, SEED, AUDITS["first_column"].faults["sigma"].seams)
    assert "noise law" in {check.name for check in outcome.checks if not check.passed}
    assert audit_task(made(), 12, SEED).passed
    (twin, *_), _ = cases_of_task(made(1000))
    assert twin.task.mechanism.kind == "first_column"


def test_a_kind_that_is_not_in_the_table_is_refused() -> None:
    data = made().canonical().replace(b'"first_column"', b'"third_column"')
    with pytest.raises(InvalidMessageError, match="mechanism"):
        Task.from_canonical(data)


# --- the same in a copy of the repository ----------------------------------------------------------------------


def tracked() -> list[str]:
    """Return the files of the repository, those of the toy left out."""
    answer = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    toy_itself = TOY.relative_to(ROOT).as_posix()
    return [name for name in answer.stdout.split("\0") if name and not name.startswith(toy_itself)]


def contents(folder: Path, names: list[str]) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


def add_the_word(folder: Path) -> None:
    """Put the class into the list that `MECHANISMS` is made of."""
    source = (folder / LIST).read_text("utf-8")
    line = "from lintra_protocol.mechanisms.first_column import FirstColumn\n"
    imported = re.sub(r"(?=^from lintra_protocol\.mechanisms\.histogram)", line, source, count=1, flags=re.MULTILINE)
    listed = imported.replace("    for member in (\n", "    for member in (\n        FirstColumn,\n", 1)
    assert len(listed) - len(source) == len(line) + len("        FirstColumn,\n")
    (folder / LIST).write_text(listed, "utf-8")


@pytest.mark.slow
def test_it_takes_these_files_and_no_other(tmp_path: Path) -> None:
    names = tracked()
    for name in names:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, tmp_path / name)
    before = contents(tmp_path, names)
    given = sorted(path.relative_to(TOY).as_posix() for path in TOY.rglob("*") if path.suffix in {".py", ".md"})
    assert given == sorted([*MODULES.values(), PAGE])
    for name in given:
        copy2(TOY / name, tmp_path / name)
    add_the_word(tmp_path)
    rooms = ("protocol", "service", "client", "server", "analyzer", "tests", "deploy", "benchmarks")
    paths = os.pathsep.join(str(tmp_path / room) for room in rooms)
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}

    def runs(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert runs("tests/vectors/reference.py").returncode == 0
    tests = [f"tests/conformance/test_{name}.py" for name in ("table", "mechanisms", "vectors")]
    plans = ["tests/unit/lintra_analysis/plan/test_flags.py", "tests/docs/test_site.py"]
    answer = runs(
        "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", "-k", "first_column or reached", *tests, *plans
    )
    assert answer.returncode == 0, answer.stdout[-4000:]
    assert int(re.findall(r"(\d+) passed", answer.stdout)[0]) > 50
    after = contents(tmp_path, [*names, *given])
    changed = {name for name, data in after.items() if before.get(name) != data}
    assert changed == {*given, LIST, VECTORS}
