"""Each write of a server to its disk fails once, with EIO or ENOSPC: it serves on, or ended itself and starts again.

A piece of C that is loaded before the process counts its writes, those of SQLite and of the log among them, and lets
one of them fail. Nothing of the product is changed.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from services import free_ports

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.sealing import CLASSICAL, SealingKey
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from lintra_server.node import Node
from lintra_server.settings import Settings
from lintra_service.supervisor import HALTED
from support.failing_disk import EACH, REFUSED, UPLOADS
from support.measured import calibrated_for
from support.server_world import ANALYZER, AUTHOR, CLAIM, COLUMNS, MECHANISMS

COMPILER = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
SOURCE = Path(__file__).resolve().parents[1] / "support/failing_writes.c"
TESTS = SOURCE.parents[1]
Run = dict[str, object]


@pytest.fixture
def founded(tmp_path: Path) -> Path:
    """Return a folder with a new server, its settings, a task of which two other servers exist by name, and the C."""
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("this test lets writes fail by a piece of C, for which it needs Linux and a C compiler (cc)")
    library = tmp_path / "failing_writes.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    (tmp_path / "new").mkdir(mode=0o700)
    port, internal = free_ports(2)
    values = {"public_url": f"http://127.0.0.1:{port}", "port": port, "internal_port": internal}
    values |= {"data_dir": "disk/data", "key_dir": "disk/keys", "create_keys": True}
    lines = [
        f"{name} = {json.dumps(value)}"
        for name, value in {**values, "reserve_bytes": 65536, "min_free_bytes": 0}.items()
    ]
    text = "\n".join([*lines, '[policy]\nallowed_authors = "any"\nopen = true'])
    (tmp_path / "server.toml").write_text(text, "utf-8")
    (tmp_path / "founding.toml").write_text(text.replace("disk/", "new/"), "utf-8")
    inside = Settings.load(tmp_path / "founding.toml")
    node = Node(inside, system_randomness, time.time)
    identity = node.identity.public_key
    node.close()
    others = {server: SigningKey.generate(system_randomness) for server in (1, 2)}
    for server, key in others.items():
        (tmp_path / f"other{server}").write_bytes(key.private_bytes)
    names = [inside.public_url, "https://one.example", "https://two.example"]
    keys = [identity, others[1].public_key, others[2].public_key]
    hour = int(time.time()) // 3600
    task = Task(
        salt=base64url(system_randomness(32)),
        purpose="writes that fail",
        author_key=AUTHOR.public_key,
        servers=tuple(ServerEntry(url=name, identity_key=key) for name, key in zip(names, keys, strict=True)),
        analyzer=AnalyzerEntry(
            identity_key=ANALYZER.public_key,
            sealing_key=base64url(SealingKey.generate(CLASSICAL, system_randomness).public_bytes),
        ),
        columns=COLUMNS,
        mechanism=calibrated_for(MECHANISMS["sum"], len(COLUMNS), CLAIM, 1000),
        claim=CLAIM,
        max_clients=1000,
        max_missing="0.25",
        time_precision=3600,
        not_before=hour - 1,
        not_after=hour + 24,
        suite=CLASSICAL,
    )
    (tmp_path / "task.json").write_bytes(task.canonical())
    return tmp_path


@contextmanager
def trying(folder: Path) -> Iterator[Callable[[int, int], Run]]:
    """Give a function that lets the write of a number fail with an error, and returns what happened."""
    told = folder / "told"
    told.write_bytes(bytes(4096))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)]),
        "LD_PRELOAD": str(folder / "failing_writes.so"),
        "FAILING_FILE": str(told),
        "FAILING_UNDER": str(folder / "disk"),
    }
    command = [sys.executable, "-m", "support.failing_disk", str(folder)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        asking, answers = process.stdin, process.stdout
        assert asking is not None
        assert answers is not None

        def tried(at: int, error: int) -> Run:
            asking.write(f"{at} {error}\n")
            return json.loads(answers.readline())  # type: ignore[no-any-return]

        yield tried
        asking.close()
    assert process.returncode == 0


def require_well(run: Run) -> None:
    """Hold one run against what must be true whichever write fails."""
    if run["served"]:
        assert run["first"] in (0, HALTED), run
    else:
        # It ended itself and said why, or never came to serve and said why.
        assert run["first"] == HALTED or (run["first"] == REFUSED and run["refused"]), run
    assert run["then"] == 0, run
    assert UPLOADS * EACH - EACH <= run["acknowledged"] <= run["known"] <= UPLOADS * EACH, run  # type: ignore[operator]


@pytest.mark.slow  # whole processes; in the quick simulations, writes of servers in this process fail
def test_a_server_of_which_a_write_fails_serves_or_ends_itself_and_keeps_what_it_acknowledged(founded: Path) -> None:
    with trying(founded) as tried:
        whole = tried(0, 0)
        writes = whole["writes"]
        assert isinstance(writes, int)
        assert (whole["failed"], whole["first"], whole["then"], whole["tracebacks"]) == (0, 0, 0, 0), whole
        assert whole["acknowledged"] == whole["known"] == UPLOADS * EACH
        for at, error in ((writes // 3, errno.EIO), (2 * writes // 3, errno.ENOSPC)):
            run = tried(at, error)
            assert run["failed"] == 1
            require_well(run)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_write_may_fail(founded: Path, part: int) -> None:
    with trying(founded) as tried:
        at, is_reached = 1 + part, True
        while is_reached:
            for error in (errno.EIO, errno.ENOSPC):
                run = tried(at, error)
                require_well(run)
                is_reached = run["failed"] == 1
            at += 4
    assert at > 100
