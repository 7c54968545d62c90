"""Runs a server as a process of which one write fails, and then one that starts from what is left.

    python -m support.failing_disk FOLDER

with `failing_writes.c` loaded before it. For each line of its standard input, a number and an error (EIO or ENOSPC), it
forks a server on a copy of the folder, whose write of that number fails, wherever it is made: in Python, in SQLite, to
the database, to the key folder or to the log. Somebody registers a task, uploads reports, closes, freezes and releases,
and asks again what was not answered. It prints a line of JSON: how the process ended, what it acknowledged, and what
was there in the end.
"""

import errno
import http.client
import json
import mmap
import os
import shutil
import signal
import struct
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from faults.test_attacks import corrupt_cohorts, corrupt_request
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.http.requests import MessageName, media_type, sign_request
from lintra_protocol.ideal import client_report
from lintra_protocol.messages.documents import Cohort, Inventory, KeyList, Signed, TaskRecord, UploadAnswer, sign
from lintra_protocol.report.report import Report, seal_block
from lintra_protocol.report.upload import encode_upload
from lintra_protocol.task import Task
from lintra_server import node, serve
from lintra_server.settings import Settings
from lintra_service.supervisor import Supervisor
from support.server_world import ANALYZER, AUTHOR, World, seeded

UPLOADS, EACH = 3, 5
"""Uploads before the batch is closed, and the reports of each."""

PATIENCE = 45.0
"""Seconds within which a server that lives does what it is asked."""

HANG_SECONDS = 15.0
REFUSED = 1
_TOLD = struct.Struct("5q")


class Shim:
    """What is told to the code that lets writes fail."""

    def __init__(self) -> None:
        descriptor = os.open(os.environ["FAILING_FILE"], os.O_RDWR)
        self._memory = mmap.mmap(descriptor, _TOLD.size)
        os.close(descriptor)

    def arm(self, at: int, error: int) -> None:
        """Count from now on, and let the write of that number fail; none, if it is 0."""
        self._memory[:] = _TOLD.pack(1, at, error, 0, 0)

    def disarm(self) -> tuple[int, int]:
        """Let nothing fail any more; return how many writes there were, and how many failed."""
        _, _, _, count, failed = _TOLD.unpack(self._memory[:])
        self._memory[:] = bytes(_TOLD.size)
        return count, failed


class EndedError(Exception):
    """The process ended, with this status."""


class Server:
    """A server's process while it runs."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        """Fork it; its log is in the folder, too."""
        self._settings = settings
        self.log = folder / "log"
        self._pid = os.fork()
        if self._pid == 0:
            _be(settings, self.log)
        self.status: int | None = None

    def look(self) -> None:
        """See whether it ended.

        Raises:
            EndedError: it did.
        """
        if self.status is None:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if ended else None
        if self.status is not None:
            raise EndedError(self.status)

    def ask(self, method: str, path: str, body: bytes = b"", name: MessageName | None = None) -> tuple[int, bytes]:
        """Ask until there is an answer that is no passing refusal; return its status and body.

        Raises:
            EndedError: the process ended before.
            TimeoutError: it lives, and does not do what it is asked.
        """
        deadline, last = time.monotonic() + PATIENCE, ""
        while time.monotonic() < deadline:
            self.look()
            headers = sign_request(
                ANALYZER, method, f"{self._settings.public_url}{path}", body, int(time.time()), system_randomness(16)
            )
            if name:
                headers["content-type"] = media_type(name)
            try:
                with closing(http.client.HTTPConnection("127.0.0.1", self._settings.port, timeout=10)) as connection:
                    connection.request(method, path, body, headers)
                    answer = connection.getresponse()
                    content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                last = type(error).__name__
            else:
                if answer.status < 500 and answer.status not in (202, 429):
                    return answer.status, content
                last = f"{answer.status} {content[:300]!r}"
            time.sleep(0.05)
        raise TimeoutError(f"{method} {path}: {last}; log: {self.log.read_text()[-2000:]}")

    def is_alive(self) -> bool:
        """Return whether operators are told that it is alive (see `ask` for errors)."""
        self.look()
        with closing(http.client.HTTPConnection("127.0.0.1", self._settings.internal_port, timeout=10)) as connection:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200

    def kill(self) -> None:
        """End it, if it did not."""
        if self.status is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self.status = -signal.SIGKILL

    def stop(self) -> int:
        """Ask it to end, and return its status."""
        if self.status is None:
            os.kill(self._pid, signal.SIGTERM)
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                try:
                    self.look()
                except EndedError:
                    break
                time.sleep(0.01)
            else:
                self.kill()
                raise TimeoutError("SIGTERM does not end it")
        return cast("int", self.status)


def _be(settings: Settings, log: Path) -> None:
    """Be a server: what `lintra server run` does, with less patience."""
    status = 0
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        node.NOTE_SECONDS = 0.2
        serve.PROBE_SECONDS = 1  # type: ignore[misc]
        serve.Supervisor = partial(Supervisor, hang_seconds=HANG_SECONDS)  # type: ignore[misc, assignment]
        serve.run(settings)
    except Exception as error:  # as the command does
        status = REFUSED
        os.write(2, f"REFUSED {type(error).__name__}: {error}\n".encode())
    except SystemExit as ended:  # its port is taken, say
        status = int(ended.code or 0)
    finally:
        os._exit(status)


class History:
    """What is asked, what was acknowledged and answered so far."""

    def __init__(self, task: Task, others: dict[int, SigningKey]) -> None:
        """Have asked nothing."""
        self.task = task
        apps = {server: SimpleNamespace(node=SimpleNamespace(identity=key)) for server, key in others.items()}
        self._world = cast("World", SimpleNamespace(task=task, apps=apps))
        self._reports = [_report(task, number) for number in range((UPLOADS + 1) * EACH)]
        self.acknowledged: set[bytes] = set()
        self.documents: dict[str, bytes] = {}
        self.known: list[bytes] = []
        self._registered = False

    def run(self, server: Server) -> None:
        """Ask everything that was not answered yet, in its order, and everything again that was."""
        path = f"/v1/tasks/{self.task.task_id}"
        record = sign(AUTHOR, TaskRecord(definition=self.task)).canonical()
        status, _ = server.ask("PUT", path, record, "task")
        assert status in (200, 201), status
        assert status == 200 or not self._registered, "a registered task is unknown"
        self._registered = True
        if "inventory" not in self.documents:
            for number in range(UPLOADS):
                self._upload(server, number)
        inventory = self._step(server, "POST", "inventory")
        status, ids = server.ask("GET", f"{path}/batches/0/inventory/ids")
        assert status == 200, status
        self.known = list(ReportIds.parse(ids, 10**6))
        assert self.acknowledged <= set(self.known), "an acknowledged report is in no inventory"
        asked = corrupt_request(
            self._world, Signed[Inventory].from_canonical(inventory), self.known, self.known
        ).canonical()
        cohort = self._step(server, "PUT", "cohort", asked, "cohort-request")
        released = corrupt_cohorts(self._world, Signed[Cohort].from_canonical(cohort)).canonical()
        self._step(server, "PUT", "aggregate", released, "aggregate-request")
        # After its end the batch takes nothing more, and says so.
        assert self._sent(server, UPLOADS) == {"batch_closed"}
        assert server.is_alive()

    def _upload(self, server: Server, number: int) -> None:
        failures = self._sent(server, number)
        # It may have been closed by an answer that never arrived.
        assert failures <= {"batch_closed"}, failures
        if not failures:
            self.acknowledged.update(report.report_id for report in self._parcel(number))

    def _sent(self, server: Server, number: int) -> set[str]:
        _, answer = server.ask("GET", "/v1/keys")
        keys = Signed[KeyList].from_canonical(answer).message.keys
        key = next(each for each in keys if each.suite == self.task.suite)
        sealing = parse_base64url(key.key_id), parse_base64url(key.public_key)
        body = encode_upload([seal_block(self.task, 0, *sealing, self._parcel(number))])
        status, answer = server.ask("POST", f"/v1/tasks/{self.task.task_id}/reports", body, "reports")
        assert status == 200, (status, answer)
        return {failure.type for failure in UploadAnswer.from_canonical(answer).failures}

    def _parcel(self, number: int) -> list[Report]:
        return self._reports[number * EACH : (number + 1) * EACH]

    def _step(
        self, server: Server, method: str, name: str, body: bytes = b"", message: MessageName | None = None
    ) -> bytes:
        path = f"/v1/tasks/{self.task.task_id}/batches/0/{name}"
        status, answer = server.ask(method, path, body, message)
        assert status == 200, (name, status, answer)
        assert self.documents.setdefault(name, answer) == answer, f"a second {name}"
        return answer


def _report(task: Task, number: int) -> Report:
    return client_report(task, (0.1, 0.2, 0.01 * number), task.not_before, seeded(f"client {number}"))


def tried(folder: Path, settings: Settings, history: History, shim: Shim, at: int, error: int) -> dict[str, Any]:
    """Run the history with one failing write, then to its end without; return what happened."""
    (folder / "log").touch()
    shim.arm(at, error)
    server = Server(folder, settings)
    told: dict[str, Any] = {"at": at, "error": errno.errorcode.get(error, ""), "refused": ""}
    try:
        history.run(server)
        told["served"] = True
    except EndedError:
        told["served"] = False
    except BaseException:
        server.kill()
        raise
    told["writes"], told["failed"] = shim.disarm()
    told["first"] = server.stop()
    if told["first"] == REFUSED:
        told["refused"] = server.log.read_text().rpartition("REFUSED ")[2]
    again = Server(folder, settings)
    try:
        history.run(again)
        told["then"] = again.stop()
    except EndedError as ended:
        told["then"] = ended.args[0]
    finally:
        again.kill()
    log = server.log.read_text()
    told |= {"halted": "halted" in log, "tracebacks": log.count("Traceback"), "log": log[-3000:] if at else ""}
    told |= {"acknowledged": len(history.acknowledged), "known": len(history.known)}
    return told


def main(folder: Path) -> None:
    shim, settings = Shim(), Settings.load(folder / "server.toml")
    task = Task.from_canonical((folder / "task.json").read_bytes())
    others = {server: SigningKey((folder / f"other{server}").read_bytes()) for server in (1, 2)}
    copy = Path(os.environ["FAILING_UNDER"])
    for line in sys.stdin:
        at, error = map(int, line.split())
        shutil.copytree(folder / "new", copy, dirs_exist_ok=True)
        told = tried(copy, settings, History(task, others), shim, at, error)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        shutil.rmtree(copy)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
