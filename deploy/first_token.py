"""Make the token for the first sign-in, unless there is one: `python first_token.py HASHES TOKEN`.

Its hash is added to the file HASHES, which the analyzer reads at its start, and the token itself goes to the file
TOKEN. `lintra analyzer token` does the same; this does not load the whole analyzer for it, just before it starts.
"""

import os
import sys
from pathlib import Path

from lintra_protocol.crypto.randomness import system_randomness
from lintra_service.bearer_tokens import new_token, token_hash


def ensure_token(hashes: Path, token: Path) -> None:
    """Make both files; where there is a token, do nothing."""
    if token.exists():
        return
    made = new_token(system_randomness)
    with os.fdopen(os.open(hashes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="ascii") as lines:
        lines.write(token_hash(made) + "\n")
    # The token last, and whole: where there is one, its hash is there.
    new = token.with_name(token.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(made + "\n")
    new.replace(token)


if __name__ == "__main__":
    ensure_token(Path(sys.argv[1]), Path(sys.argv[2]))
