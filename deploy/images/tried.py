"""Start a role once while its image is made: what does not start, or lacks a module, is no image.

python tried.py server|analyzer|client|demo|cluster

Packages come without bytecode, half of which nobody would read. What this loads gets it, so that a container, whose
root cannot be written to, need not compile at every start.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

READY = "http://127.0.0.1:8201/readyz"
PATIENCE = 300.0
SETTINGS = {
    "server": """
        public_url = "https://server.example"
        internal_port = 8201
        data_dir = "{folder}/data"
        key_dir = "{folder}/keys"
        create_keys = true
        """,
    "analyzer": """
        internal_port = 8201
        data_dir = "{folder}/data"
        create_keys = true
        trust_on_first_use = true
        servers = [{{ url = "http://127.0.0.1:1" }}, {{ url = "http://127.0.0.1:2" }}]
        """,
}
"""Of services that are started; they end with the build."""
DRAWING = ("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg")
LATER = {
    "server": ("lintra_server.batches.partial_release", "lintra_server.storage.postgres", "psycopg"),
    "analyzer": ("formulaic", "pandas", "scipy.optimize", "scipy.stats", *DRAWING),
    "client": ("lintra_client.commands.client", "lintra_client.upload.simulate"),
    "demo": ("demo", *DRAWING),
    "cluster": ("dask.distributed", "distributed.cli.dask_scheduler", "distributed.cli.dask_worker",
                "lintra_server.batches.cluster"),
}  # fmt: skip
"""What a role loads only when it is asked for it."""


def start(role: str) -> None:
    """Start a service, wait until it is ready, and end it.

    Raises:
        SystemExit: it ended by itself, or was not ready in time; it has said why.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings.toml"
        settings.write_text("\n".join(line.strip() for line in SETTINGS[role].format(folder=folder).splitlines()))
        for name in ("data", "keys"):
            (Path(folder) / name).mkdir(mode=0o700)
        with subprocess.Popen(["lintra", role, "run", "--config", str(settings)]) as service:
            deadline = time.monotonic() + PATIENCE
            while not answers():
                if service.poll() is not None or time.monotonic() > deadline:
                    service.kill()
                    raise SystemExit(f"{role} does not start")
                time.sleep(0.2)
            service.terminate()
            if service.wait() != 0:
                raise SystemExit(f"{role} does not end as it should")


def answers() -> bool:
    """Return whether the service is ready."""
    try:
        with urlopen(READY, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def main() -> None:
    """Try the role that was named."""
    role = sys.argv[1]
    os.umask(0o022)
    # A health check asks over TLS at a proxy, and over a plain socket here.
    importlib.import_module("ssl")
    for name in LATER[role]:
        importlib.import_module(name)
    if role in SETTINGS:
        start(role)


if __name__ == "__main__":
    main()
