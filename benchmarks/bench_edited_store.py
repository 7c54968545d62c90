"""What it costs that a server believes nothing of its database: this tree against an earlier one, in turns.

    python benchmarks/bench_edited_store.py --before PATH [--rows 1000000] [--tasks 10000] [--looking] [--write]

With `--looking` the earlier tree stores no commit by its one statement: it looks first, as this tree always does.

PATH is a checkout of the earlier tree with its own `.venv`. Each tree has one process, and both do the same work in
turns: a busy machine slows both alike. Costs are CPU times of the whole process; a ratio is the median of all turns.
The folders lie where temporary files do. Without `--before` this tree is compared with itself, which shows the noise.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from inspect import signature
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve()

GROUPS = {1: 100, 32: 40, 256: 16}
"""Reports in a commit, and commits in a turn."""

TURNS, STARTS = 60, 5
FEW = 10
WORDS = 10
PROCESS = "--process"


# --- in the process of one tree: only what both trees have ------------------------------------------------------------


class Server:
    """A server in a folder, in this process, with the code of the tree whose Python runs."""

    def __init__(self, folder: str) -> None:
        """Start it; CPU seconds of that are in `seconds`."""
        import structlog

        from lintra_server.node import Node
        from lintra_server.settings import Settings
        from lintra_server.storage import store

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
        values = {
            "data_dir": f"{folder}/data", "key_dir": f"{folder}/keys", "public_url": "https://server.example",
            "policy": {"allowed_authors": "any", "open": True}, "create_keys": True,
        }  # fmt: skip
        settings = Settings.model_validate(values).placed(Path(folder))
        self._random_bytes = os.urandom
        self._upload = getattr(store, "StoredUpload", None) or store.Upload  # type: ignore[attr-defined]
        """An older tree has the older name."""
        self._more = {"capacity": 10**9} if "capacity" in signature(self._upload).parameters else {}
        began = time.process_time()
        self.node = Node(settings, os.urandom, time.time)
        self.seconds = time.process_time() - began

    def register(self, count: int) -> float:
        """Register so many tasks; return the CPU seconds of one."""
        more = {"server": 0, "capacity": 10**9} if "capacity" in signature(self.node.store.add_task).parameters else {}
        names = [self._random_bytes(32) for _ in range(count)]
        began = time.process_time()
        for name in names:
            self.node.store.add_task(name, b"{}" * 500, author="author", ends=2**32, retention=0, **more)
        return (time.process_time() - began) / count

    def commit(self, group: int, count: int) -> float:
        """Store so many groups of reports; return the CPU seconds of one group."""
        seconds = 0.0
        for _ in range(count):
            ids = [self._random_bytes(32) for _ in range(group)]
            payloads = [self._random_bytes(8 * WORDS) for _ in range(group)]
            uploads = [self._upload(1, ids, payloads, **self._more)]
            began = time.process_time()
            self.node.store.add_reports(uploads)
            seconds += time.process_time() - began
        return seconds / count

    def fill(self, group: int, count: int) -> float:
        """Store so many groups without waiting for the disk."""
        from sqlalchemy import event

        engine = self.node.database._engine
        event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous=OFF"))
        engine.dispose()
        return self.commit(group, count)

    def look(self) -> float:
        """Store by a transaction that looks first from now on, where there is another way."""
        if hasattr(self.node.store, "_add_at_once"):
            self.node.store._add_at_once = lambda _by_batch: False
        return 0.0

    def first(self) -> float:
        """Return the CPU seconds of the start, the first upload and the first look at what the batch holds."""
        began = time.process_time()
        self.commit(1, 1)
        store = self.node.store
        getattr(store, "num_reports" if hasattr(store, "num_reports") else "num_durable")(1)
        return self.seconds + time.process_time() - began

    def read(self) -> float:
        """Return the CPU seconds of what a release asks of the store: lists, ranks, joined rows, and all payloads."""
        try:
            from lintra_server.batches import merged_batches as group
        except ImportError:  # an older tree
            from lintra_server.batches import group  # type: ignore[attr-defined]

        store = self.node.store
        began = time.process_time()
        store.merge_segments(1, 1e9)
        store.report_ids(1)
        if hasattr(group, "ranked"):
            ((_, stored),) = group.ranked(store, [1])
        else:
            store.ranks(1)  # type: ignore[attr-defined]
            stored = store.segments(1)  # type: ignore[call-arg]
        for _number, _payloads in stored.payloads():
            pass
        return time.process_time() - began

    def close(self) -> float:
        """Stop it."""
        self.node.close()
        return 0.0


def serve() -> None:
    """Do what is asked, a line of JSON each: a name and numbers; the first line is the folder."""
    server = Server(json.loads(sys.stdin.readline()))
    print(json.dumps(server.seconds), flush=True)
    for line in sys.stdin:
        name, *numbers = json.loads(line)
        print(json.dumps(getattr(server, name)(*numbers)), flush=True)


# --- in the process that compares -------------------------------------------------------------------------------------


class Tree:
    """A process with a server of one tree; its start is `seconds`."""

    def __init__(self, python: str, folder: str) -> None:
        """Start it."""
        # Not as a file of this folder: an earlier tree has modules of the same names.
        program = f"exec(compile(open({str(HERE)!r}).read(), {str(HERE)!r}, 'exec'))"
        command = [python, "-c", f"__file__ = {str(HERE)!r}; {program}", PROCESS]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds = self._asked(folder)

    def ask(self, name: str, *numbers: int) -> float:
        """Return what a method of `Server` returns."""
        return self._asked([name, *numbers])

    def __enter__(self) -> "Tree":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.ask("close")
        self._process.communicate()

    def _asked(self, what: object) -> float:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline()))


Pair = tuple[list[float], list[float]]
"""Seconds of the earlier tree and of this one, turn by turn."""


def in_turns(turns: int, works: tuple[Callable[[], float], Callable[[], float]]) -> Pair:
    """Let both work in turns, each first in every other one."""
    found: Pair = ([], [])
    for turn in range(turns):
        for which in (0, 1) if turn % 2 else (1, 0):
            found[which].append(works[which]())
    return found


def commits(trees: tuple[Tree, Tree], turns: int, looking: bool) -> dict[str, Pair]:
    """Return what a commit costs, by its reports."""
    before, now = trees
    for tree in trees:
        tree.ask("register", 1)
        if looking:
            tree.ask("look")
    found: dict[str, Pair] = {}
    for group, count in GROUPS.items():
        for tree in trees:
            tree.ask("commit", group, count)
        works = partial(before.ask, "commit", group, count), partial(now.ask, "commit", group, count)
        found[f"a commit of {group}"] = in_turns(turns, works)
    return found


def release(trees: tuple[Tree, Tree], reports: int) -> dict[str, Pair]:
    """Return what a release of that many reports asks of the store, that came in groups of 256."""
    for tree in trees:
        tree.ask("register", 1)
        tree.ask("fill", 256, -(-reports // 256))
    before, now = trees
    # The first joins the rows: it is no turn of many.
    first = in_turns(1, (lambda: before.ask("read"), lambda: now.ask("read")))
    rest = in_turns(STARTS, (lambda: before.ask("read"), lambda: now.ask("read")))
    return {
        f"reading {reports:,} reports for a release, rows joined first": first,
        f"reading {reports:,} reports for a release, again": rest,
    }


def starts(pythons: tuple[str, str], folders: tuple[str, str], rows: int) -> dict[str, Pair]:
    """Return what a start costs with so many rows of one report, the first upload and look included."""
    for python, folder in zip(pythons, folders, strict=True):
        with Tree(python, folder) as tree:
            tree.ask("register", 1)
            tree.ask("fill", 1, rows)

    def start(which: int) -> float:
        with Tree(pythons[which], folders[which]) as tree:
            return tree.ask("first")

    found = in_turns(STARTS, (lambda: start(0), lambda: start(1)))
    return {f"a start with {rows:,} uploads of one report, the first upload and look included": found}


def tasks(pythons: tuple[str, str], folders: tuple[str, str], count: int) -> dict[str, Pair]:
    """Return what registering costs after few and after many tasks, and a start with so many open tasks."""
    few: Pair = ([], [])
    many: Pair = ([], [])
    for which in (0, 1):
        with Tree(pythons[which], folders[which]) as tree:
            tree.ask("register", FEW)
            few[which].append(tree.ask("register", FEW))
            tree.ask("register", count - 3 * FEW)
            many[which].append(tree.ask("register", FEW))

    def start(which: int) -> float:
        with Tree(pythons[which], folders[which]) as tree:
            return tree.seconds

    begun = in_turns(STARTS, (lambda: start(0), lambda: start(1)))
    return {
        f"registering a task, {FEW} there": few,
        f"registering a task, {count:,} there": many,
        f"a start with {count:,} open tasks": begun,
    }


def measured(pythons: tuple[str, str], asked: argparse.Namespace) -> dict[str, Pair]:
    """Return all of it."""
    found: dict[str, Pair] = {}

    def in_folders(work: Callable[[tuple[str, str]], Mapping[str, Pair]]) -> None:
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            found.update(work((one, other)))

    def with_trees(work: Callable[[tuple[Tree, Tree]], Mapping[str, Pair]]) -> None:
        def both(folders: tuple[str, str]) -> Mapping[str, Pair]:
            with ExitStack() as stack:
                before, now = (stack.enter_context(Tree(*each)) for each in zip(pythons, folders, strict=True))
                return work((before, now))

        in_folders(both)

    if "commits" in asked.parts:
        with_trees(lambda trees: commits(trees, asked.turns, asked.looking))
    if "release" in asked.parts:
        with_trees(lambda trees: release(trees, asked.rows))
    if "starts" in asked.parts:
        in_folders(lambda folders: starts(pythons, folders, asked.rows))
    if "tasks" in asked.parts:
        in_folders(lambda folders: tasks(pythons, folders, asked.tasks))
    return found


def in_words(seconds: float) -> str:
    """Return seconds with a unit that fits."""
    unit, size = next(each for each in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if seconds >= each[1] or each[1] < 1e-5)
    return f"{seconds / size:.3g} {unit}"


def rows(found: Mapping[str, Pair]) -> list[tuple[str, str, str, float, float]]:
    """Return what, the medians before and now, the median of the ratios of turns, and the difference in seconds."""
    lines = []
    for what, (before, now) in found.items():
        old, new = statistics.median(before), statistics.median(now)
        ratio = statistics.median([one / other for other, one in zip(before, now, strict=True)])
        lines.append((what, in_words(old), in_words(new), ratio, new - old))
    return lines


def main() -> None:
    """Show it."""
    sys.path.insert(0, str(HERE.parent))
    from showing import Shown, load, parser, show

    options = parser(__doc__, TURNS, TURNS)
    options.add_argument("--before", default="", help="a checkout of the earlier tree, with its own .venv")
    options.add_argument("--looking", action="store_true", help="no short way for the earlier tree")
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--tasks", type=int, default=10_000)
    options.add_argument("--turns", type=int, default=TURNS)
    options.add_argument("--parts", nargs="+", default=["commits", "release", "starts", "tasks"])
    asked = options.parse_args()
    pythons = (f"{asked.before}/.venv/bin/python" if asked.before else sys.executable), sys.executable

    def shown() -> Shown:
        busy = load()
        table = tuple((what, old, new, ratio) for what, old, new, ratio, _ in rows(measured(pythons, asked)))
        how = ", the earlier tree's by its transaction that looks first" if asked.looking else ""
        note = f"CPU time of the process; of commits {asked.turns} turns{how}, of starts {STARTS}. {busy}"
        heads = ("what", "before", "now", "times")
        return Shown("edited-store", "What it costs to believe nothing of a database", heads, table, note)

    show({"edited-store": shown}, asked)


if __name__ == "__main__":
    if PROCESS in sys.argv:
        serve()
    else:
        main()
