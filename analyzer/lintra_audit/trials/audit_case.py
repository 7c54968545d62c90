"""An audit case: a task among made-up parties, the clients that report, and the requests to the servers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lintra_protocol.crypto.randomness import derive_seed
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.crypto.sealing import CLASSICAL
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.fields.windows import Windows
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim, Neighbours, NoiseBy
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task

NUM_SERVERS = 3

_KEYS = bytes(32)


@dataclass(frozen=True)
class Case:
    """One audit: a task, the cohort that reports, and what is asked of the servers."""

    name: str  #: one word for tables and `--case`
    about: str  #: what it is, in a few words
    make_task: Callable[[], Task]  #: returns the public parameters, checked; calibrating them may take a while
    num_clients: int
    without_first: bool = False  #: whether a second release, of the same reports without client 0, is asked for
    again: bool = False  #: whether the same release is asked for again
    effort: int = 1  #: runs of this case for one run of an ordinary one; a smaller mu needs more
    alone: bool = False  #: whether all others are corrupt, and what is promised then is audited
    must_refuse: bool = False  #: whether the rules must refuse the task, what is sent, or the last request
    #: of a task of organisations, rows of other persons in the first of them; the next has one more, and so on. As many
    #: as the task has room for if these are fewer, unless they must be refused.
    others: int = 3

    @cached_property
    def task(self) -> Task:
        """The public parameters, made when they are first asked for."""
        return self.make_task()

    def requests(self) -> list[IntArray]:
        """Return the numbers of the clients, shape `(k,)`, in each release that is asked for."""
        everybody = np.arange(self.num_clients)
        if self.again:
            return [everybody, everybody]
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
    contributors: Contributors | None = None,
    noise: NoiseBy = "clients",
    epsilon_alone: str | None = None,
) -> Task:
    """Return a checked task among made-up parties, its mechanism calibrated to the claim."""
    claim = Claim(
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        min_clients=min_clients,
        max_corrupt_clients=max_corrupt_clients,
        threat="adaptive",
        epsilon_alone=epsilon_alone,
    )
    most, servers = most_clients(contributors, claim), {noise: NUM_SERVERS}
    setting = Setting(contributors, servers.get("servers", 0), servers.get("both", 0))
    calibrated = Measurement(mechanism, num_columns, setting, claim).calibrated(most)
    return task_of(calibrated, columns or numbers(num_columns))


def most_clients(contributors: Contributors | None, claim: Claim) -> int:
    """Return the largest cohort of an audited task; of organisations the smallest, for whom the ring has more room."""
    return 1000 if contributors is None else claim.min_clients


def numbers(num_columns: int) -> tuple[Column, ...]:
    """Return columns with values between -1 and 1."""
    return tuple(Column(name=f"x{index}", lower="-1", upper="1") for index in range(num_columns))


def task_of(measurement: Measurement, columns: Sequence[Column], windows: Windows | None = None) -> Task:
    """Return a checked task of a calibrated measurement, of one batch or of windows; its keys are nobody's."""
    task = unchecked_task(measurement, columns)
    if windows is not None:
        times = {"batches": "windowed", "windows": windows, "not_after": task.not_before + windows.units}
        task = task.model_copy(update=times)
    task.check()
    return task


def unchecked_task(measurement: Measurement, columns: Sequence[Column]) -> Task:
    """Return the same, which may break a rule."""
    keys = [SigningKey(derive_seed(_KEYS, "audit identity", bytes([k]))).public_key for k in range(NUM_SERVERS + 2)]
    claim, held = measurement.claim, measurement.setting.contributors
    tokens = held is not None and claim.max_corrupt_clients < claim.min_clients - 1
    hidden = [base64url(derive_seed(_KEYS, "audit tokens", bytes([k]))) for k in range(NUM_SERVERS)]
    return Task(
        salt=base64url(_KEYS),
        purpose="an audit",
        author_key=keys[0],
        servers=tuple(
            ServerEntry(url=f"http://server-{index}.test", identity_key=key) for index, key in enumerate(keys[2:])
        ),
        analyzer=AnalyzerEntry(identity_key=keys[1], sealing_key=base64url(derive_seed(_KEYS, "audit sealing"))),
        columns=tuple(columns),
        mechanism=measurement.mechanism,
        claim=claim,
        max_clients=most_clients(held, claim),
        not_before=1,
        not_after=2**40,
        suite=CLASSICAL,
        contributors=held,
        noise=measurement.setting.noise,
        client_auth="token" if tokens else "none",
        token_keys=tuple(hidden) if tokens else (),
    )
