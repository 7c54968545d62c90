"""Runs a server's start, closing, freezing and release in processes of its own that kill themselves at one write.

    python -m support.killed_gate FOLDER FIRST LAST STEP

For every STEP-th number from FIRST to LAST it forks a process on a copy of the folder, which sends itself SIGKILL
before the write of that number, and then one that starts from what is left. It prints a line of JSON for each: how it
ended, what it had said, and what was said afterwards. Nothing of the product is changed: the writes are those of the
operating system and of SQLite.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import structlog
from sqlalchemy import Connection, event

from faults.test_attacks import corrupt_cohorts, corrupt_request
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.messages.documents import Cohort, Inventory, Signed
from lintra_protocol.task import Task
from lintra_server.node import Node
from lintra_server.settings import Settings
from lintra_server.storage.database import Database
from lintra_server.storage.raw_statement import KeptConnection
from support.server_world import POLICY, START, World, url

WRITES = ("write", "pwrite", "fsync", "fdatasync", "ftruncate", "unlink", "replace", "rename", "mkdir")
HALTED = 70


def settings_in(folder: Path, server: int = 0) -> Settings:
    values = {"data_dir": folder / f"server{server}", "key_dir": folder / f"keys{server}", "policy": POLICY}
    return Settings.model_validate({"public_url": url(server), **values}).placed(folder)


def kill_at(number: int) -> None:
    """Send this process SIGKILL before its write of this number, counted from now on."""
    counted = 0

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1
        if counted == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(original: Callable[..., object]) -> Callable[..., object]:
        def writing(*arguments: object, **options: object) -> object:
            count()
            return original(*arguments, **options)

        return writing

    for name in WRITES:
        setattr(os, name, watched(getattr(os, name)))
    before_commits(count)


def before_commits(act: Callable[[], None]) -> None:
    """Let something be called before each transaction of a server's database that writes is committed."""
    made, commit_kept = Database.__init__, KeptConnection._commit

    def commit(connection: Connection) -> None:
        if connection.get_execution_options().get("lintra_immediate"):
            act()

    def making(self: Database, path: Path, brought_to: str) -> None:
        made(self, path, brought_to)
        event.listen(self._engine, "commit", commit)

    def acting(self: KeptConnection, connection: Connection) -> None:
        act()
        commit_kept(self, connection)

    Database.__init__, KeptConnection._commit = making, acting  # type: ignore[method-assign]


def exchange(folder: Path, task: Task, others: dict[int, SigningKey], say: Callable[[bytes], None]) -> None:
    """Start the server, and let it close, freeze and release; say each answer once it is there."""
    node = Node(settings_in(folder), system_randomness, lambda: START, lambda: START, lambda _: os._exit(HALTED))
    node._stopping.set()  # its notes come once a second, and would be counted at random
    node._notes.join()
    held = node.registry.find_batch(task.task_id)
    apps = {server: SimpleNamespace(node=SimpleNamespace(identity=key)) for server, key in others.items()}
    world = cast("World", SimpleNamespace(task=task, apps=apps))
    inventory = node.gate.close(held)
    say(inventory)
    ids = node.gate.inventory_ids(held)
    request = corrupt_request(world, Signed[Inventory].from_canonical(inventory), cast("Any", ids), cast("Any", ids))
    cohort = node.gate.freeze(held, request)
    say(cohort)
    say(node.gate.release(held, corrupt_cohorts(world, Signed[Cohort].from_canonical(cohort))))
    node.close()


def forked(work: Callable[[Callable[[bytes], None]], None]) -> tuple[int, list[str]]:
    """Do some work in a process of its own; return how it ended, and what it said."""
    reading, writing = os.pipe()
    write = os.write
    child = os.fork()
    if child == 0:
        try:
            work(lambda said: cast("None", write(writing, said.hex().encode() + b"\n")))
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def main(folder: Path, first: int, last: int, step: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    task = Task.from_canonical((folder / "task.json").read_bytes())
    keys = {server: SigningKey(settings_in(folder, server).identity_secret(system_randomness)) for server in (1, 2)}
    copy = folder / "copy"
    for number in range(first, last + 1, step):
        for name in ("server0", "keys0"):
            shutil.copytree(folder / name, copy / name)

        def killed(say: Callable[[bytes], None], number: int = number) -> None:
            kill_at(number)
            exchange(copy, task, keys, say)

        ended, said = forked(killed)
        again, after = forked(lambda say: exchange(copy, task, keys, say))
        line = {"at": number, "ended": ended, "said": said, "again": again, "after": after}
        sys.stdout.write(json.dumps(line) + "\n")
        shutil.rmtree(copy)
        if ended == 0:  # there are no more writes
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
