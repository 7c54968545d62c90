"""Run a command that trusts some proxies' authorities and nobody else.

python trusting.py /authorities/a /authorities/b -- lintra analyzer run ...

Waits until every folder holds its proxy's ca.pem, joins them to one file, and becomes the command, which finds the file
through SSL_CERT_FILE. Every proxy writes to a folder of its own, so that none can speak for another.
"""

import os
import sys
import time
from pathlib import Path

BUNDLE = Path("/tmp/trusted.pem")


def joined(folders: list[Path]) -> str | None:
    """Return all authorities together, or None while one is missing."""
    files = [folder / "ca.pem" for folder in folders]
    return "".join(file.read_text() for file in files) if all(file.exists() for file in files) else None


def main() -> None:
    """Wait, join, become the command."""
    cut = sys.argv.index("--")
    folders, command = [Path(name) for name in sys.argv[1:cut]], sys.argv[cut + 1 :]
    while (text := joined(folders)) is None:
        time.sleep(0.2)
    BUNDLE.write_text(text)
    os.execvpe(command[0], command, {**os.environ, "SSL_CERT_FILE": str(BUNDLE)})


if __name__ == "__main__":
    main()
