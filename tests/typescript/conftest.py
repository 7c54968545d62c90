"""The client in TypeScript, as `make` built it: needs Node 20 or newer."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client" / "typescript"


@pytest.fixture(scope="session")
def built() -> Path:
    """Return the folder of the client; without Node nothing of it is tested, and `make test` says so."""
    node = shutil.which("node")
    asked = node and subprocess.run([node, "-p", "parseInt(process.versions.node)"], capture_output=True, text=True)
    if not asked or int(asked.stdout or 0) < 20:
        if os.environ.get("LINTRA_REQUIRE_NODE"):
            pytest.fail("LINTRA_REQUIRE_NODE is set, and there is no Node 20")
        pytest.skip("TypeScript client: not tested, no node")
    if not (CLIENT / "build" / ".stamp").exists():
        pytest.skip("TypeScript client: not built; `make typescript` builds it")
    return CLIENT
