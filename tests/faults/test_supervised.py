"""Real server and analyzer processes of which one part dies or hangs: each ends with status 70 and one line."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx2
import pytest
from services import free_ports

from lintra_analyzer.service import Service, World
from lintra_analyzer.settings import Settings as AnalyzerSettings
from lintra_analyzer.tasks.schedule import Schedule
from lintra_protocol.crypto.randomness import system_randomness
from lintra_service import supervisor
from lintra_service.supervisor import HALTED
from support.analyzer_world import KEYS
from support.broken_server import FAULTS, HANG, OPENERS, run
from support.forks import forked
from support.pids import children
from support.server_world import configured

QUICK = ["the writer died", f"the note-taker has made no progress for {HANG} s"]


def broken(folder: Path, fault: str) -> tuple[BaseProcess, Path]:
    """Start a server of which a part breaks; return its process, and the file that it writes its log to."""
    folder.mkdir()
    path, _ = configured(folder)
    return forked(run, str(path), fault, str(folder / "log")), folder / "log"


def require_ended(folder: Path, faults: Sequence[str]) -> None:
    """Let a server break in each of some ways, all at once, and see how they end."""
    running = {fault: broken(folder / str(number), fault) for number, fault in enumerate(faults)}
    for fault, (process, log) in running.items():
        process.join(60)
        line = log.read_text().splitlines()[-1]
        said = json.loads(line)
        assert (process.exitcode, said["event"]) == (HALTED, "halted"), fault
        assert said["reason"].startswith(fault)
        assert "secret" not in line


def test_a_server_whose_writer_dies_or_whose_note_taker_hangs_ends_itself_and_says_why(tmp_path: Path) -> None:
    require_ended(tmp_path, QUICK)


@pytest.mark.slow
def test_a_server_of_which_any_part_dies_or_hangs_ends_itself_and_says_why(tmp_path: Path) -> None:
    require_ended(tmp_path, list(FAULTS))


@pytest.mark.slow
def test_an_opener_that_hangs_is_killed_and_another_one_takes_its_place(tmp_path: Path) -> None:
    path, settings = configured(tmp_path)
    ready, log = f"http://127.0.0.1:{settings.internal_port}/readyz", tmp_path / "log"
    server = forked(run, str(path), OPENERS, str(log))
    assert server.pid is not None
    try:
        _wait_until_ready(ready)
        before = children(server.pid)
        os.kill(before[0], signal.SIGSTOP)
        deadline = time.monotonic() + 120
        while before[0] in children(server.pid):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        _wait_until_ready(ready)
        assert before[1] in children(server.pid)
        assert server.is_alive()
    finally:
        server.terminate()
        server.join(60)
    assert server.exitcode == 0
    assert "an opener ended and is started again" in log.read_text()


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            if httpx2.get(url).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.1)


ANALYZER = """
import sys
from pathlib import Path
import lintra_analyzer.serve as serve
from lintra_analyzer.settings import Settings
from lintra_analyzer.tasks.schedule import Schedule

class Odd(BaseException):
    pass

def look(self):
    raise Odd
Schedule.look = look
serve.run(Settings.load(Path(sys.argv[1])))
"""


class OddError(BaseException):
    """What no part of the analyzer expects."""


async def test_an_analyzer_whose_schedule_dies_asks_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: Schedule) -> None:
        raise OddError

    reasons: list[str] = []
    monkeypatch.setattr(Schedule, "look", look)
    monkeypatch.setattr(supervisor, "end_process", reasons.append)
    servers = [{"url": f"https://{name}.example", "identity_key": KEYS.identity.public_key} for name in ("one", "two")]
    settings = AnalyzerSettings.model_validate({"data_dir": tmp_path, "min_free_bytes": 0, "servers": servers})
    async with httpx2.AsyncClient() as http:
        service = Service(settings, KEYS, World(http, lambda: 0, system_randomness))
        with pytest.raises(OddError):
            async with service.running():
                await asyncio.sleep(0.1)
    assert reasons[0] == "the schedule died: OddError"  # at which the process ends


@pytest.mark.slow
def test_an_analyzer_whose_schedule_dies_ends_itself_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "analyzer.toml"
    ports = free_ports(4)
    lines = [f"port = {ports[0]}", f"internal_port = {ports[1]}", "create_keys = true", "min_free_bytes = 0"]
    lines += ['data_dir = "data"', "trust_on_first_use = true"]
    lines += [f'[[servers]]\nurl = "http://127.0.0.1:{port}"' for port in ports[2:]]
    path.write_text("\n".join(lines), "utf-8")
    command = [sys.executable, "-c", ANALYZER, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == HALTED, line
    assert json.loads(line)["reason"] == "the schedule died: Odd"
