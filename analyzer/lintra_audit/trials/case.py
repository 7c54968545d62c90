"""What is audited: a task among made-up parties, who reports, and what is asked of the servers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lintra_protocol.canonical import base64url
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.privacy.statement import Claim, Neighbours
from lintra_protocol.randomness import derive_seed
from lintra_protocol.ring import IntArray
from lintra_protocol.schema import Column
from lintra_protocol.sealing import CLASSICAL
from lintra_protocol.signing import SigningKey
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task

NUM_SERVERS = 3

_KEYS = bytes(32)


@dataclass(frozen=True)
class Case:
    """One audit: a task, the cohort that reports, and what is asked of the servers.

    Attributes:
        name: one word for tables and `--case`.
        about: what it is, in a few words.
        make_task: returns the public parameters, checked; calibrating them may take a while.
        num_clients: who reports.
        without_first: whether a second release, of the same reports without client 0, is asked for.
        effort: runs of this case for one run of an ordinary one; a smaller mu needs more.
        must_refuse: whether the rules must refuse the last request.
    """

    name: str
    about: str
    make_task: Callable[[], Task]
    num_clients: int
    without_first: bool = False
    effort: int = 1
    must_refuse: bool = False

    @cached_property
    def task(self) -> Task:
        """The public parameters, made when they are first asked for."""
        return self.make_task()

    def requests(self) -> list[IntArray]:
        """Return the numbers of the clients in each release that is asked for."""
        everybody = np.arange(self.num_clients)
        return [everybody, everybody[1:]] if self.without_first else [everybody]


def make_case_task(
    mechanism: AnyMechanism,
    *,
    num_columns: int,
    min_clients: int,
    max_corrupt_clients: int = 0,
    epsilon: str = "4",
    delta: str = "0.00001",
    neighbours: Neighbours = "replace-one",
    columns: Sequence[Column] | None = None,
) -> Task:
    """Return a checked task among made-up parties, its mechanism calibrated to the claim."""
    claim = Claim(
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        min_clients=min_clients,
        max_corrupt_clients=max_corrupt_clients,
        threat="adaptive",
    )
    return task_of(mechanism.calibrated(claim, num_columns, 1000), claim, columns or numbers(num_columns))


def numbers(num_columns: int) -> tuple[Column, ...]:
    """Return columns with values between -1 and 1."""
    return tuple(Column(name=f"x{index}", lower="-1", upper="1") for index in range(num_columns))


def task_of(mechanism: AnyMechanism, claim: Claim, columns: Sequence[Column]) -> Task:
    """Return a checked task for a calibrated mechanism; its keys belong to nobody."""
    keys = [SigningKey(derive_seed(_KEYS, "audit identity", bytes([k]))).public_key for k in range(NUM_SERVERS + 2)]
    task = Task(
        salt=base64url(_KEYS),
        purpose="an audit",
        author_key=keys[0],
        servers=tuple(
            ServerEntry(url=f"http://server-{index}.test", identity_key=key) for index, key in enumerate(keys[2:])
        ),
        analyzer=AnalyzerEntry(identity_key=keys[1], sealing_key=base64url(derive_seed(_KEYS, "audit sealing"))),
        columns=tuple(columns),
        mechanism=mechanism,
        claim=claim,
        max_clients=1000,
        not_before=1,
        not_after=2**40,
        suite=CLASSICAL,
    )
    task.check()
    return task
