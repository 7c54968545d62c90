"""Small checked tasks: two calls with the same arguments give the same task."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import cast

from lintra_client import ClientPolicy
from lintra_protocol.crypto.randomness import derive_seed
from lintra_protocol.crypto.sealing import SuiteName
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import real
from lintra_protocol.fields.schema import Column
from lintra_protocol.fields.windows import Windows
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.shares_seen import claim_for_noise
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from support.conformance import Small, conformance
from support.measured import InSetting
from support.seeds import SEED, identity, sealing_key

TRUSTING = ClientPolicy(trust_enrolment=True)
"""Of a client that takes tasks with one layer of noise, of many clients."""

NOT_BEFORE = 1
NOT_AFTER = 2**40
"""The window of a task in minutes: open whatever clock a test runs on."""


def uncalibrated(kind: str, row_bound: float = 1.0, rows: int = 2, sparsity: int = 1, columns: int = 3) -> AnyMechanism:
    """Return a mechanism of a kind with the smallest noise a document may state; `make_task` calibrates it."""
    return conformance(kind).uncalibrated(Small(row_bound, rows, sparsity, columns))


def columns_of(names: Iterable[str], bound: str = "1") -> tuple[Column, ...]:
    """Return columns with values in [-bound, bound]."""
    return tuple(Column(name=name, lower=f"-{bound}", upper=bound) for name in names)


def make_task(
    mechanism: str | AnyMechanism = "sum",
    *,
    num_servers: int = 3,
    columns: int | Sequence[Column] = 3,
    rows: int = 2,
    sparsity: int = 1,
    row_bound: float = 1.0,
    epsilon: float | str = 1,
    delta: float | str = 1e-6,
    min_clients: int = 7,
    max_clients: int = 1000,
    max_corrupt_clients: int = 0,
    suite: SuiteName = "x25519",
    urls: Sequence[str] | None = None,
    claim: Claim | None = None,
    check: bool = True,
    **fields: object,
) -> Task:
    """Return a task among the parties of `identity` and `sealing_key`.

    Args:
        mechanism: a kind, which is calibrated to the claim (for noise by servers or both, if `fields` say so; alone it
            then keeps three times epsilon); or a mechanism, which is taken as it is.
        num_servers: N.
        columns: how many columns named a, b, ..; or the columns themselves.
        rows: m, for the sketches.
        sparsity: s, for the sketches.
        row_bound: B; the bound of an entry for `osnap_published`.
        epsilon: of the claim.
        delta: of the claim.
        min_clients: of the claim.
        max_clients: of the task.
        max_corrupt_clients: of the claim.
        suite: of the task; the classical one by default, since it is faster.
        urls: of the servers.
        claim: instead of the five numbers above.
        check: whether to check the task, as every party does.
        **fields: any other field of the task.
    """
    if isinstance(columns, int):
        columns = columns_of("abcdefghijklmnopqrstuvwxyz"[:columns])
    claim = claim or Claim(
        epsilon=real(epsilon), delta=real(delta), min_clients=min_clients, max_corrupt_clients=max_corrupt_clients
    )
    if isinstance(mechanism, InSetting):
        setting, mechanism = mechanism.setting, mechanism.mechanism
        fields = {"contributors": setting.contributors, **fields}
        fields.setdefault("noise", setting.noise)
    is_both = fields.get("noise") == "both"
    if is_both and claim.epsilon_alone is None:
        claim = claim.model_copy(update={"epsilon_alone": real(3 * Decimal(claim.epsilon))})
    if isinstance(mechanism, str):
        asked = uncalibrated(mechanism, row_bound, rows, sparsity, len(columns))
        mechanism = _calibrated(asked, len(columns), claim, max_clients, num_servers, fields)
    urls = urls or [f"http://server-{index}.test" for index in range(num_servers)]
    servers = tuple(
        ServerEntry(url=url, identity_key=identity(f"server {index}").public_key) for index, url in enumerate(urls)
    )
    values: dict[str, object] = {
        "salt": base64url(derive_seed(SEED, "salt")),
        "purpose": "a test",
        "author_key": identity("author").public_key,
        "servers": servers,
        "analyzer": AnalyzerEntry(
            identity_key=identity("analyzer").public_key,
            sealing_key=base64url(sealing_key("analyzer", suite).public_bytes),
        ),
        "columns": tuple(columns),
        "mechanism": mechanism,
        "claim": claim,
        "max_clients": max_clients,
        "time_precision": 60,
        "not_before": NOT_BEFORE,
        "not_after": NOT_AFTER,
        "suite": suite,
    }
    task = Task.model_validate(values | fields)
    if check:
        task.check()
    return task


def _calibrated(
    asked: AnyMechanism, columns: int, claim: Claim, max_clients: int, num_servers: int, fields: Mapping[str, object]
) -> AnyMechanism:
    """Return a mechanism calibrated to what a task with these fields has to keep."""
    noise, verified = fields.get("noise", "clients"), fields.get("verification", "none") != "none"
    kept = claim_for_noise(claim, clients_noise=noise != "servers") if verified else claim
    windows = cast("Windows | None", fields.get("windows"))
    merges, stream = windows is not None and windows.max_merge > 1, None if windows is None else windows.matrix
    counts = [num_servers * (noise == each) for each in ("servers", "both")]
    setting = Setting(None, counts[0], counts[1], merges, stream)
    return Measurement(asked, columns, setting, kept).calibrated(max_clients).mechanism
