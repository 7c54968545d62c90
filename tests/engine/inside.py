"""What the tests of the containers do inside their networks, where alone servers can be reached.

python inside.py create ROWS           make a task that needs every one of so many rows, and print its identifier
python inside.py open                  make a task for any number of rows from 60 on, and print its identifier
python inside.py send TASK FIRST LAST  send these rows, the last few after a line came in; print how many were
                                       acknowledged after each few
python inside.py stream TASK           send rows one by one until a line comes in; print the acknowledged identifiers
python inside.py release TASK          release, and print how many reports it holds
python inside.py holds TASK            release, asking again whatever happens, and print the identifiers it holds
python inside.py whole                 make and print a task, send rows, print who was acknowledged, then as `holds`
"""

import asyncio
import sys
import time
from pathlib import Path

import numpy as np

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import Client, Retries
from lintra_protocol.errors import LintraError

URLS = [f"https://server-{x}:8443" for x in "abc"]
COLUMNS = ("age", "bmi", "pressure")
FEW = 5
AT_ONCE = 4
LEAST = 40
ENOUGH = 60
"""Reports that a task with `LEAST` can be released with: more, since some clients may belong to somebody hostile."""
MOST = 100_000
PATIENCE = 300.0
RETRIES = Retries(attempts=300, first_wait=0.2, longest_wait=1.0)


def say(what: str | int) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def analyzer() -> AnalyzerClient:
    return AnalyzerClient("https://console:8443", Path("/analyst/token").read_text().split()[-1])


def create(least: int, most: int) -> str:
    with analyzer() as client:
        made = client.create_task(
            {
                "purpose": "A test of the containers.",
                "columns": [{"name": name, "lower": -9, "upper": 9} for name in COLUMNS],
                "mechanism": {"kind": "second_moment"},
                "row_bound": 1.7,
                "epsilon": 2,
                "delta": 1e-6,
                "min_clients": least,
                "max_clients": most,
                # In hours, a server that was restored would take no new task before the next but one.
                "time_precision": 5,
            }
        )
    return str(made["task_id"])


async def send(task_id: str, first: int, last: int) -> None:
    rows = np.random.default_rng(3).normal(0, 2, (last, len(COLUMNS))).clip(-9, 9)[first:]
    sent = 0
    async with Client(task_id, URLS, ledger=None, retries=RETRIES) as client:
        for begin in range(0, len(rows), FEW):
            if begin + FEW >= len(rows):
                # However quick the rest was, something is left to send until whoever loses containers has done so.
                await asyncio.to_thread(sys.stdin.readline)
            sent += (await client.send_many(rows[begin : begin + FEW])).sent
            say(sent)
            # Slow enough that containers can be lost meanwhile.
            await asyncio.sleep(1.0)


async def stream(task_id: str, until: "asyncio.Future[str] | None" = None) -> None:
    """Send rows one by one until something happens, but a release's worth of them in any case."""
    generator, acknowledged = np.random.default_rng(4), list[str]()
    async with Client(task_id, URLS, ledger=None, retries=RETRIES) as client:
        say("begun")
        while (until is not None and not until.done()) or len(acknowledged) < ENOUGH:
            rows = generator.normal(0, 2, (AT_ONCE, len(COLUMNS))).clip(-9, 9)
            receipts = await asyncio.gather(*(client.send(row) for row in rows))
            acknowledged += [receipt.report_id for receipt in receipts]
            await asyncio.sleep(0.1)
    say(" ".join(acknowledged))


async def stream_until_a_line(task_id: str) -> None:
    await stream(task_id, asyncio.create_task(asyncio.to_thread(sys.stdin.readline)))


def release(task_id: str) -> int:
    with analyzer() as client:
        return len(client.cohort(client.release(task_id))["report_ids"])


def holds(task_id: str) -> str:
    """Release as somebody does who asks again after every failure, for `PATIENCE` seconds, but not after a refusal."""
    deadline = time.monotonic() + PATIENCE
    with analyzer() as client:
        while True:
            try:
                return " ".join(client.cohort(client.release(task_id))["report_ids"])
            except LintraError as error:
                if not error.retryable:
                    return f"refused {error.token}"
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "send":
        asyncio.run(send(rest[0], int(rest[1]), int(rest[2])))
    elif command == "stream":
        asyncio.run(stream_until_a_line(rest[0]))
    elif command == "create":
        # Nothing less than all of them can be released.
        say(create(int(rest[0]), int(rest[0])))
    elif command == "open":
        say(create(LEAST, MOST))
    elif command == "whole":
        say(made := create(LEAST, MOST))
        asyncio.run(stream(made))
        say("releasing")
        say(holds(made))
    else:
        say(release(rest[0]) if command == "release" else holds(rest[0]))
