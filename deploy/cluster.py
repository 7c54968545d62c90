"""A Dask cluster of one server's own, in containers: its scheduler, which is also its authority, and its workers.

python cluster.py scheduler PORT          makes authority and certificates at its first start
python cluster.py worker tls://HOST:PORT  waits for its certificate

Folders below /cluster, a volume each: `authority` is the scheduler's alone; `worker` and `server` get what these two
show, and the authority's certificate. A member is known by its certificate, never by a name in it.
"""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from certificates import Pair, ensure_authority, ensure_certificate

FOLDER = Path("/cluster")
MEMBERS = ("scheduler", "worker", "server")
SETTINGS = {
    "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
    # Shares of one server never touch a disk outside its store.
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
}


def certify(folder: Path, now: datetime) -> None:
    """Make what is missing or near its end: the authority, and a certificate for every member."""
    authority = Pair(folder / "authority/ca.pem", folder / "authority/ca.key")
    ensure_authority(authority, ["cluster"], now)
    for member in MEMBERS:
        place = folder / ("authority" if member == "scheduler" else member)
        ensure_certificate(Pair(place / "own.pem", place / "own.key"), authority, ["cluster"], now, client=True)
        if place.name != "authority":
            (place / "ca.pem").write_bytes(authority.certificate.read_bytes())


def main() -> None:
    """Become the scheduler or a worker."""
    role, where = sys.argv[1:3]
    place = FOLDER / ("authority" if role == "scheduler" else "worker")
    if role == "scheduler":
        certify(FOLDER, datetime.now(UTC))
    while not (place / "ca.pem").exists() or not (place / "own.pem").exists():
        time.sleep(0.2)
    shown = [str(place / name) for name in ("ca.pem", "own.pem", "own.key")]
    tls = [f"--tls-{what}={path}" for what, path in zip(("ca-file", "cert", "key"), shown, strict=True)]
    variables = {**os.environ, **SETTINGS, "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": shown[0]}
    if role == "scheduler":
        command = ["dask", "scheduler", "--protocol", "tls", "--port", where, "--no-dashboard", *tls]
    else:
        # The certificate is shown twice: to the cluster, and at the server's door.
        variables["DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT"] = shown[1]
        variables["DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY"] = shown[2]
        command = ["dask", "worker", where, "--nthreads", "1", "--no-dashboard", "--local-directory", "/tmp", *tls]
    os.execvpe(command[0], command, variables)


if __name__ == "__main__":
    main()
