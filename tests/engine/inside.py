"""What the test of the containers does inside their networks, where alone servers can be reached.

python inside.py create ROWS           make a task that needs every one of so many rows, and print its identifier
python inside.py send TASK FIRST LAST  send these rows, and print after each few how many were acknowledged
python inside.py release TASK          release, and print how many reports it holds
"""

import asyncio
import sys
from pathlib import Path

import numpy as np

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import Client, Retries

URLS = [f"https://server-{x}:8443" for x in "abc"]
COLUMNS = ("age", "bmi", "pressure")
FEW = 10


def say(what: str | int) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def analyzer() -> AnalyzerClient:
    return AnalyzerClient("https://console:8443", Path("/analyst/token").read_text().split()[-1])


def create(rows: int) -> str:
    with analyzer() as client:
        made = client.create_task(
            {
                "purpose": "A test of the containers.",
                "columns": [{"name": name, "lower": -9, "upper": 9} for name in COLUMNS],
                "mechanism": {"kind": "second_moment"},
                "row_bound": 1.7,
                "epsilon": 2,
                "delta": 1e-6,
                # Nothing less than all of them can be released.
                "min_clients": rows,
                "max_clients": rows,
            }
        )
    return str(made["task_id"])


async def send(task_id: str, first: int, last: int) -> None:
    rows = np.random.default_rng(3).normal(0, 2, (last, len(COLUMNS))).clip(-9, 9)[first:]
    retries = Retries(attempts=300, first_wait=0.2, longest_wait=1.0)
    sent = 0
    async with Client(task_id, URLS, ledger=None, retries=retries) as client:
        for begin in range(0, len(rows), FEW):
            sent += (await client.send_many(rows[begin : begin + FEW])).sent
            say(sent)
            # Slow enough that containers can be lost meanwhile.
            await asyncio.sleep(0.5)


def release(task_id: str) -> int:
    with analyzer() as client:
        return len(client.cohort(client.release(task_id))["report_ids"])


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "send":
        asyncio.run(send(rest[0], int(rest[1]), int(rest[2])))
    else:
        say(create(int(rest[0])) if command == "create" else release(rest[0]))
