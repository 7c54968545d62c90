"""A terminal for the commands of a page: one shell for all its blocks, in which every command that fails is noticed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from support.pages import Block

_LINTRA = """#!/usr/bin/env bash
# Services go on in the background, as if they had a terminal of their own; the next command waits until they listen.
run() { exec {python} -c 'from lintra_protocol.command import main; main()' "$@"; }
[ "$2" = run ] || run "$@"
log="{folder}/$1.$$.log"
( run "$@" ) > "$log" 2>&1 &
echo $! >> "{folder}/services"
for _ in $(seq 600); do
  grep -q 'starting' "$log" && exit 0
  kill -0 $! 2> /dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
exit 1
"""
SECONDS = 240
ENTER = "\n"
"""The answer to every question that a command asks."""


def typed(
    sources: Iterable[Block], folder: Path, environment: Mapping[str, str], ways: Iterable[str] = ()
) -> tuple[str, list[str]]:
    """Type the blocks of a page into one shell, byte for byte.

    Args:
        sources: blocks in the order of the page.
        folder: where the shell starts; a folder `.terminal` in it holds what this needs itself.
        environment: variables beside those of this process.
        ways: what `curl --connect-to` takes, for addresses on a page that are another's on this machine.

    Returns:
        What was printed, and the commands whose status was not 0.
    """
    own = folder / ".terminal"
    own.mkdir()
    command = own / "lintra"
    command.write_text(_LINTRA.replace("{python}", sys.executable).replace("{folder}", str(own)))
    command.chmod(0o755)
    # An answer of 400 and above is a failure, too.
    (own / ".curlrc").write_text("fail-with-body\n" + "".join(f'connect-to = "{way}"\n' for way in ways))
    lines = ["shopt -s expand_aliases", "set -o pipefail", """trap 'echo "$? $BASH_COMMAND" >> "$FAILED"' ERR"""]
    script = own / "page.sh"
    script.write_text("\n".join([*lines, *(block.text for block in sources)]))
    variables = {"PATH": f"{own}:{os.environ['PATH']}", "FAILED": str(own / "failed"), "HOME": str(own), **environment}
    try:
        ended = subprocess.run(
            ["bash", str(script)], cwd=folder, env={**os.environ, **variables}, input=ENTER * 1000,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    finally:
        services = own / "services"
        for number in services.read_text().split() if services.exists() else []:
            with suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)
    failed = own / "failed"
    return ended.stdout, failed.read_text().splitlines() if failed.exists() else []
