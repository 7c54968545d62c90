"""What a server answers while it releases: single uploads and its health, asked by a process of its own.

Run by itself it asks: `python -m scale.beside FOLDER SERVER` asks in turns until the file `ENOUGH` is in the folder,
and prints as JSON when each answer was asked for and how long it took. The clock is the machine's, so that another
process can say what went on meanwhile.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import numpy as np

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.http.requests import media_type
from lintra_protocol.messages.documents import KeyList, Signed, TaskRecord
from lintra_protocol.report.report import make_report, seal_block
from lintra_protocol.report.upload import encode_upload
from lintra_protocol.task import Task
from scale.costs import Answer

ENOUGH, BESIDE = "enough", "beside.json"
QUIET_SECONDS = 10.0
"""How long it asks before anything else goes on."""

_PAUSE = 0.2
_SECONDS = 600.0


@dataclass(frozen=True)
class Waits:
    """How long answers of one kind took, in milliseconds."""

    count: int
    median: float
    p99: float
    longest: float

    @classmethod
    def of(cls, answers: Sequence[Answer], kind: str, begins: float, ends: float) -> "Waits":
        """Take those of a kind that were asked for in a span of time."""
        taken = 1000 * np.array([took for name, asked, took in answers if name == kind and begins <= asked < ends])
        if not len(taken):
            return cls(0, float("nan"), float("nan"), float("nan"))
        return cls(len(taken), float(np.median(taken)), float(np.percentile(taken, 99)), float(taken.max()))

    def __str__(self) -> str:
        return f"p50 {self.median:.0f}, p99 {self.p99:.0f}, longest {self.longest:.0f} ms of {self.count}"


def sealed_upload(task: Task, server: int, key: tuple[bytes, bytes]) -> bytes:
    """Return an upload of one new report of zeros for one server, whose key has this name and these bytes."""
    report = make_report(task, np.zeros(task.num_words, np.int64), task.not_before, system_randomness)
    return encode_upload([seal_block(task, server, *key, [report])])


@contextmanager
def asking(folder: Path, server: int, environment: dict[str, str]) -> Iterator[list[Answer]]:
    """Ask a running server of a collection while something goes on; give a list that is filled at the end."""
    answers: list[Answer] = []
    command = [sys.executable, "-m", "scale.beside", str(folder), str(server)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    try:
        yield answers
        (folder / ENOUGH).touch()
        told, _ = process.communicate(timeout=_SECONDS)
        if process.returncode:
            raise RuntimeError("whoever asked beside the release failed")
        answers += [(kind, asked, took) for kind, asked, took in json.loads(told)]
    finally:
        process.kill()
        process.wait()


def _asked(folder: Path, server: int) -> Iterator[Answer]:
    task = Signed[TaskRecord].from_canonical((folder / BESIDE).read_bytes()).message.definition
    url, internal = task.servers[server].url, (folder / f"internal-{server}").read_text()
    with httpx2.Client(timeout=_SECONDS) as http:
        listed = Signed[KeyList].from_canonical(http.get(f"{url}/v1/keys").content).message.keys
        key = next(each for each in listed if each.suite == task.suite)
        named = parse_base64url(key.key_id), parse_base64url(key.public_key)
        while not (folder / ENOUGH).exists():
            body = sealed_upload(task, server, named)
            kind, path = {"content-type": media_type("reports")}, f"/v1/tasks/{task.task_id}/reports"
            requests = {
                "upload": http.build_request("POST", url + path, content=body, headers=kind),
                "health": http.build_request("GET", f"http://127.0.0.1:{internal}/healthz"),
                "ready": http.build_request("GET", f"http://127.0.0.1:{internal}/readyz"),
            }
            for name, request in requests.items():
                asked = time.monotonic()
                answer = http.send(request)
                yield name, asked, time.monotonic() - asked
                if answer.status_code != 200 or (name == "upload" and b'"failures":[]' not in answer.content):
                    raise RuntimeError(f"{name}: {answer.status_code} {answer.text}")
            time.sleep(_PAUSE)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(list(_asked(Path(sys.argv[1]), int(sys.argv[2])))))
