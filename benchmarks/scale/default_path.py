"""What an analyst gets who asks for nothing more: a verified second moment of ten columns at three servers.

The parts that run in processes of their own: `python -m scale.default_path ROLE FOLDER ..` is a client that sends
rows (`bulk`, `single`), one that sends a row and ends (`once`), or the analyzer (`release`). Each prints JSON.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROLES = ("bulk", "single", "once", "release")
COLUMNS, SERVERS, SEED, ONCE = 10, 3, 7, 0.1
WARM = {"bulk": 512, "single": 8}
"""Rows that are sent first, while what is needed once is loaded and reckoned."""


def rows_of(count: int):  # type: ignore[no-untyped-def]  # NumPy is loaded by those roles alone that need it
    """Return the rows that are sent, which whoever checks the release makes again; none is the row sent `once`."""
    import numpy as np

    if not count:
        return np.full((1, COLUMNS), ONCE)
    return np.random.default_rng(SEED).uniform(-0.3, 0.3, (count, COLUMNS))


async def _send(folder: Path, role: str, count: int) -> dict[str, float]:
    from lintra_client import Client, ClientPolicy

    told = json.loads((folder / "client.json").read_text())
    rows = rows_of(count)
    policy = ClientPolicy(trust_enrolment=True)
    async with Client(told["task"], told["servers"], policy=policy, ledger=None) as client:
        await _take(client, role, rows_of(WARM[role]))
        began = time.process_time()
        await _take(client, role, rows)
        return {"cpu": time.process_time() - began}


async def _take(client, role: str, rows) -> None:  # type: ignore[no-untyped-def]  # as above
    if role == "single":
        for row in rows:
            await client.send(row)
    elif (summary := await client.send_many(rows)).sent != len(rows):
        raise RuntimeError(f"{summary.sent} of {len(rows)} rows were sent: {summary.stopped}")


async def _once(folder: Path) -> dict[str, float]:
    from lintra_client import Client, ClientPolicy

    told = json.loads((folder / "client.json").read_text())
    policy = ClientPolicy(trust_enrolment=True)
    async with Client(told["task"], told["servers"], policy=policy, ledger=None) as client:
        await client.send([ONCE] * COLUMNS)
    return {"cpu": time.process_time()}


def _release(folder: Path, pids: list[int]) -> dict[str, object]:
    from scale.cohort import Collection
    from scale.release import measured_release

    kept: dict[str, int] = {}

    def after(stage: str) -> None:
        kept[stage] = max(_bytes_in(folder / f"data-{number}") for number in range(SERVERS))

    costs = asyncio.run(measured_release(Collection.load(folder), pids, _check, after))
    return {"stages": [asdict(cost) for cost in costs], "kept": kept}


def _bytes_in(folder: Path) -> int:
    """Return what a folder takes on disk, now."""
    return sum(512 * file.stat().st_blocks for file in folder.rglob("*") if file.is_file())


def _check(made, sketch, signed, store) -> None:  # type: ignore[no-untyped-def]  # see `scale.release.Check`
    """Refuse a release that is not the sum of the rows' products, but for noise."""
    import numpy as np

    from lintra_protocol.crypto.randomness import bulk_system_randomness

    count, measured = signed.record.num_clients, made.task.measurement
    if count != made.num_reports:
        raise ValueError(f"{count} of {made.num_reports} reports were released")
    sent = json.loads((made.folder / "sent.json").read_text())
    exact = sum(
        measured.exact_reports(rows_of(each), random_bytes=bulk_system_randomness()).sum(axis=0) for each in sent
    )
    noise = measured.noise(2000, bulk_system_randomness()).std(axis=0) * np.sqrt(count)
    worst = np.abs(sketch.reshape(-1) - exact) / (noise + 10 * measured.servers_deviation + measured.smoothing + 1)
    if worst.max() > 10:
        raise ValueError(f"the release of {count} reports is off by {worst.max():.3g} deviations")


def main(role: str, folder: str, *numbers: str) -> None:
    """Play one role, and print what it cost."""
    place = Path(folder)
    if role == "release":
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        found: dict[str, object] = _release(place, [int(pid) for pid in numbers])
    elif role == "once":
        found = dict(asyncio.run(_once(place)))
    else:
        found = dict(asyncio.run(_send(place, role, int(numbers[0]))))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
