"""All use of Dask: a connection, a tree of tasks, and the function that runs on a worker."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dask
import distributed

from lintra_protocol.errors import LintraError, UnavailableError
from lintra_server.batches.executor import PartShare
from lintra_server.batches.key_broker import Certificates
from lintra_server.batches.partial_release import RemotePart, compute
from lintra_service.supervisor import track_remote_work


@contextmanager
def connected(scheduler: str, certificates: Certificates | None, seconds: float) -> Iterator["distributed.Client"]:
    """Give a client of a scheduler, and leave nothing there at the end.

    Raises UnavailableError if it does not answer, or shows no certificate of the authority.
    """
    # Neither has types of its own.
    make_client: Callable[..., distributed.Client] = distributed.Client
    make_security: Callable[..., distributed.Security] = distributed.Security
    security = None
    if certificates is not None:
        security = make_security(
            tls_ca_file=str(certificates.authority),
            tls_client_cert=str(certificates.certificate),
            tls_client_key=str(certificates.key),
            require_encryption=True,
        )
    try:
        client = make_client(scheduler, security=security, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise UnavailableError(f"the cluster at {scheduler} does not answer: {type(error).__name__}") from None
    with client:
        yield client


def tree(
    client: "distributed.Client",
    parts: Sequence[RemotePart],
    added: Callable[[PartShare, PartShare], PartShare],
    attempts: int,
) -> Iterator[PartShare]:
    """Compute parts on the workers, add them up there in pairs, and yield the one sum; nothing without parts.

    Raises UnavailableError if a part could not be computed.
    """
    # Not pure: a sum is computed for this release and is not to be found again by anybody.
    futures = [client.submit(compute_on_worker, part, pure=False, retries=attempts) for part in parts]
    while len(futures) > 1:
        pairs = [futures[place : place + 2] for place in range(0, len(futures), 2)]
        futures = [pair[0] if len(pair) == 1 else client.submit(added, *pair, pure=False) for pair in pairs]
    for future in futures:
        try:
            with track_remote_work():
                found = future.result()
            yield found
        except LintraError as error:
            raise UnavailableError(f"a worker of the cluster: {error.detail}") from None
        except Exception as error:  # whatever a worker ended with, nothing was released
            raise UnavailableError(f"a part of the release failed in the cluster: {type(error).__name__}") from None


def compute_on_worker(part: RemotePart) -> PartShare:
    """Compute a part, on a worker; raise UnavailableError if the worker may write what it holds to its disk."""
    for name in ("target", "spill"):
        if dask.config.get(f"distributed.worker.memory.{name}"):
            raise UnavailableError(f"it may spill to disk: set distributed.worker.memory.{name} to false")
    return compute(part, _own_certificates())


def _own_certificates() -> Certificates | None:
    """Return the worker's own certificate, as its cluster is configured."""
    files = [dask.config.get(f"distributed.comm.tls.{name}") for name in ("ca-file", "worker.cert", "worker.key")]
    return Certificates(*map(Path, files)) if all(files) else None
