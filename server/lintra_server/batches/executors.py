"""Executors beyond this process: a pool of processes on this machine, or a Dask cluster of the server's own."""

import ipaddress
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from urllib.parse import urlsplit

import structlog

from lintra_protocol.errors import UnavailableError
from lintra_server.batches.executor import Executor, InProcessExecutor, PartShare, ReleaseRequest, added
from lintra_server.batches.key_broker import Certificates, open_broker
from lintra_server.batches.partial_release import RemotePart, behind_the_door, compute, remote_parts
from lintra_server.settings import Settings
from lintra_service.settings import InvalidSettingsError

ATTEMPTS = 3
"""How often a part is tried whose process ended, before the release is refused for now."""

CONNECT_SECONDS = 30

log = structlog.get_logger()


def executor_of(settings: Settings) -> Executor:
    """Return what the settings name: nothing, `processes:K`, or `dask://host:port`."""
    kind, _, rest = (settings.executor or "").partition(":")
    if kind == "processes":
        return ProcessExecutor(int(rest))
    if kind == "dask":
        return DaskExecutor(f"dask:{rest}", _certificates(settings), settings.cluster_host)
    return InProcessExecutor()


def _certificates(settings: Settings) -> Certificates | None:
    files = (settings.cluster_authority_file, settings.cluster_certificate_file, settings.cluster_key_file)
    authority, certificate, key = files
    if authority is None or certificate is None or key is None:
        if any(files):
            raise InvalidSettingsError("a cluster's authority, certificate and key files are set together")
        return None
    return Certificates(authority, certificate, key)


@dataclass(frozen=True)
class ProcessExecutor:
    """As many processes on this machine, started for a release and ended with it."""

    count: int

    def part_shares(self, release: ReleaseRequest) -> Iterator[PartShare]:
        """Yield the sums of the parts as they are done; a part whose process was killed is computed again.

        Raises UnavailableError if processes ended again and again.
        """
        with open_broker(behind_the_door(release)) as door:
            waiting = dict(enumerate(remote_parts(release, door)))
            for _ in range(ATTEMPTS):
                try:
                    yield from self._computed(waiting)
                except BrokenProcessPool:
                    log.warning("a process of a release ended", parts_left=len(waiting))
                else:
                    return
        raise UnavailableError(f"processes of the release ended {ATTEMPTS} times")

    def _computed(self, waiting: dict[int, RemotePart]) -> Iterator[PartShare]:
        # Not forked: a child would continue random streams, and hold locks and connections that are not its own.
        with ProcessPoolExecutor(min(self.count, max(1, len(waiting))), get_context("spawn")) as pool:
            futures = {pool.submit(compute, part): number for number, part in waiting.items()}
            for future in as_completed(futures):
                found = future.result()
                del waiting[futures[future]]
                yield found


class DaskExecutor:
    """This server's own Dask cluster: whoever runs it sees the server's shares (docs/how-to/deploying.md#cluster)."""

    def __init__(self, address: str, certificates: Certificates | None, host: str = "127.0.0.1") -> None:
        """Name the cluster; nothing is connected before a release.

        `address` is `dask://host:port` of its scheduler; `certificates` are those of this server, for mutual TLS with
        scheduler and workers. `host` is the name or number of this machine as workers reach it. Raises
        InvalidSettingsError if the scheduler is on another machine and there are no certificates.
        """
        parts = urlsplit(address)
        if certificates is None and not _is_loopback(parts.hostname or ""):
            raise InvalidSettingsError(
                f"a cluster at {parts.hostname} needs mutual TLS: cluster_authority_file, cluster_certificate_file and "
                "cluster_key_file"
            )
        self._scheduler = f"{'tls' if certificates else 'tcp'}://{parts.netloc}"
        self._certificates = certificates
        self._host = host

    def part_shares(self, release: ReleaseRequest) -> Iterator[PartShare]:
        """Yield one sum, which the cluster added up as a tree; a part whose worker was killed is computed again."""
        from lintra_server.batches import cluster  # Dask is an extra, and takes a second to import

        with (
            open_broker(behind_the_door(release), self._certificates, self._host) as door,
            cluster.connected(self._scheduler, self._certificates, CONNECT_SECONDS) as submit,
        ):
            yield from cluster.tree(submit, remote_parts(release, door), added, ATTEMPTS)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
