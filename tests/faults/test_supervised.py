"""Real server and analyzer processes of which one part dies or hangs: each ends with status 70 and one line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from services import free_ports

from lintra_service.supervisor import HALTED
from support.pids import children
from support.server_world import configured

HANG = 3

SERVER = """
import sys, threading, time
from functools import partial
from pathlib import Path
import lintra_server.node, lintra_server.serve as serve
from lintra_server.settings import Settings
from lintra_server.storage.store import StoredUpload
from lintra_service.supervisor import Supervisor, end_process

def die(*_):
    raise SystemExit  # of which a thread ends without a word

def fail(*_):
    raise MemoryError("a secret")

def hang(*_):
    threading.Event().wait()

made = serve.create_app

def create_app(settings):
    app = made(settings)
    node = app.node
    later = lambda work: threading.Timer(0.5, work).start()
    {fault}
    return app

serve.create_app = create_app
serve.Supervisor = partial(Supervisor, hang_seconds={hang})
serve.run(Settings.load(Path(sys.argv[1])), {workers})
"""

UPLOAD = "later(lambda: node.writer.submit(StoredUpload(1, [bytes(32)], [bytes(68)], 10), print))"
FAULTS = {
    "the writer died": f"node.writer._commit = die; {UPLOAD}",
    "lintra-writer died: ZeroDivisionError": f"node.writer._halt = node.writer._observe = lambda *_: 1 / 0; "
    f"node.writer._commit = lambda _: [[True]]; {UPLOAD}",
    "the writer has made no progress for 3 s": f"node.writer._commit = hang; {UPLOAD}",
    "the note-taker died": "node._note_if_changed = die",
    "lintra-notes died: MemoryError": "node._note_if_changed = fail",
    "the note-taker has made no progress for 3 s": "node._note_if_changed = hang",
    "uvloop_0 has made no progress for 3 s": "serve.PROBE_SECONDS = 0.1; node.readiness._look = lambda: hang()",
}  # fmt: skip
"""By what the process says."""


def ended(command: list[str], seconds: float) -> tuple[int, str]:
    """Run a process until it ends by itself; return its status, and the last line of its standard error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.parametrize("reason", FAULTS)
@pytest.mark.grid(3)
def test_a_server_of_which_a_part_dies_or_hangs_ends_itself_and_says_why(tmp_path: Path, reason: str) -> None:
    path, _ = configured(tmp_path)
    script = SERVER.format(fault=FAULTS[reason], hang=HANG, workers=1)
    status, line = ended([sys.executable, "-c", script, str(path)], 60)
    said = json.loads(line)
    assert (status, said["event"]) == (HALTED, "halted")
    assert said["reason"].startswith(reason)
    assert "secret" not in line


@pytest.mark.slow
def test_an_opener_that_hangs_is_killed_and_another_one_takes_its_place(tmp_path: Path) -> None:
    path, settings = configured(tmp_path)
    script = SERVER.format(fault="import lintra_server.web.workers as w; w.HANG_SECONDS = 12", hang=60, workers=2)
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stderr=subprocess.PIPE, text=True) as server:
        try:
            _wait_until_ready(f"http://127.0.0.1:{settings.internal_port}/readyz")
            before = children(server.pid)
            os.kill(before[0], signal.SIGSTOP)
            deadline = time.monotonic() + 60
            while before[0] in children(server.pid):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            _wait_until_ready(f"http://127.0.0.1:{settings.internal_port}/readyz")
            assert before[1] in children(server.pid)
            assert server.poll() is None
        finally:
            server.terminate()
            _, log = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "an opener ended and is started again" in log


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 60
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
from lintra_service.supervisor import Supervisor

class Odd(BaseException):
    pass

def look(self):
    raise Odd
Schedule.look = look
serve.run(Settings.load(Path(sys.argv[1])))
"""


def test_an_analyzer_whose_schedule_dies_ends_itself_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "analyzer.toml"
    ports = free_ports(4)
    lines = [f"port = {ports[0]}", f"internal_port = {ports[1]}", "create_keys = true", "min_free_bytes = 0"]
    lines += ['data_dir = "data"', "trust_on_first_use = true"]
    lines += [f'[[servers]]\nurl = "http://127.0.0.1:{port}"' for port in ports[2:]]
    path.write_text("\n".join(lines), "utf-8")
    status, line = ended([sys.executable, "-c", ANALYZER, str(path)], 60)
    assert status == HALTED, line
    assert json.loads(line)["reason"] == "the schedule died: Odd"
