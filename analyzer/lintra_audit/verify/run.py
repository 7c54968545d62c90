"""The whole audit of real servers: all attacks, each on servers with its rule and without."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lintra_audit.verify.attack_result import AttackResult
from lintra_audit.verify.client_attacks import all_lies, margin
from lintra_audit.verify.editor import editor
from lintra_audit.verify.malicious_reports import LIES
from lintra_audit.verify.processes import ServerFolder, running
from lintra_audit.verify.server_attacks import ATTACKS

MARGIN, EDITOR = "one report too few", "editor"


def known_attacks() -> list[str]:
    """Return the names of all attacks, in the order in which they are made."""
    return [*(lie.name for lie in LIES), MARGIN, *ATTACKS, EDITOR]


def audit_verification(
    names: Sequence[str] = (), fault: str | None = None, said: Callable[[str], None] = lambda _: None
) -> Iterator[AttackResult]:
    """Make attacks on real servers, and yield what each showed.

    `names` are those of the attacks to make; all if none is named. `fault` is a rule that the servers lack which should
    keep all: the audit of its attacks must fail. `said` is told what is being done.
    """
    chosen = list(names) or known_attacks()
    with tempfile.TemporaryDirectory(prefix="lintra-audit-") as folder, _one_thread():
        yield from _findings(Path(folder), chosen, fault, said)


def _findings(
    folder: Path, chosen: Sequence[str], fault: str | None, said: Callable[[str], None]
) -> Iterator[AttackResult]:
    def servers(count: int, rule: str | None) -> AbstractContextManager[list[ServerFolder]]:
        return running(folder, count, rule)

    lies = [lie for lie in LIES if lie.name in chosen]
    if lies:
        said("hostile clients")
        yield from all_lies(servers, lies, fault)
    if MARGIN in chosen:
        said(MARGIN)
        yield margin(servers, fault)
    for name, attack in ATTACKS.items():
        if name in chosen:
            said(name)
            yield attack(servers, fault)
    if EDITOR in chosen:
        said(EDITOR)
        yield editor(servers, fault)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let the servers' arithmetic have one thread each: their reports are few."""
    names = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
