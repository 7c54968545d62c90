"""Gives the processes of one release the database's address and the data key, which they need to read its shares.

Neither stands in an argument, a task graph or a log. On this machine the door is a socket in a folder that only this
user can enter; between machines it asks for a certificate of the cluster's authority, as the cluster itself does. It is
open while its release is computed, and whoever came through remembers nothing beyond its part.
"""

import json
import os
import socket
import socketserver
import ssl
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import UnavailableError

SECONDS = 30
_LENGTH = struct.Struct(">I")
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Certificates:
    """Files of one party to a cluster: who vouches for the others, and this one's own certificate and key."""

    authority: Path
    certificate: Path
    key: Path = field(repr=False)

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """Return a context in which both sides show a certificate of the authority."""
        context = ssl.create_default_context(purpose, cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        context.verify_mode = ssl.CERT_REQUIRED
        # Certificates of a cluster name roles, not hosts.
        context.check_hostname = False
        return context


@dataclass(frozen=True)
class BrokeredKeys:
    """What is behind a door."""

    database: str = field(repr=False)
    key: bytes = field(repr=False)


@contextmanager
def open_broker(behind: BrokeredKeys, certificates: Certificates | None = None, host: str = "") -> Iterator[str]:
    """Open a door, give its address, and close it at the end.

    `behind` is what is told to whoever may ask. `certificates` are those of this party, for a door to other machines;
    without them it is for this machine only. `host` is the name or number of this machine as others reach it; with
    certificates only.
    """
    told = json.dumps({"database": behind.database, "key": base64url(behind.key)}).encode()
    with tempfile.TemporaryDirectory(prefix="lintra-") as folder:
        if certificates is None:
            place = Path(folder) / "door"
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(place))
            address, context = f"unix:{place}", None
        else:
            listener = socket.create_server((host, 0))
            address = f"tls:{host}:{listener.getsockname()[1]}"
            context = certificates.context(ssl.Purpose.CLIENT_AUTH)
        with listener:
            listener.listen()
            server = _Server(listener, told, context)
            thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="lintra-door", daemon=True)
            thread.start()
            try:
                yield address
            finally:
                server.shutdown()
                thread.join()


def enter(address: str, certificates: Certificates | None = None) -> BrokeredKeys:
    """Ask at a door; raise UnavailableError if it is closed, or does not let this process in."""
    kind, _, place = address.partition(":")
    try:
        if kind == "unix":
            with socket.socket(socket.AF_UNIX) as way:
                way.settimeout(SECONDS)
                way.connect(place)
                told = _received(way)
        elif certificates is None:
            raise UnavailableError("this worker has no certificate to show at the door")
        else:
            host, _, port = place.rpartition(":")
            context = certificates.context(ssl.Purpose.SERVER_AUTH)
            with (
                socket.create_connection((host, int(port)), SECONDS) as bare,
                context.wrap_socket(bare, server_hostname=host) as way,
            ):
                told = _received(way)
    except OSError as error:
        raise UnavailableError(f"no way through the door of the release: {type(error).__name__}") from None
    document = json.loads(told)
    return BrokeredKeys(document["database"], parse_base64url(document["key"]))


class _Server(socketserver.ThreadingTCPServer):
    """Answers whoever comes in; the socket is there already."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, told: bytes, context: ssl.SSLContext | None) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        # The base class makes a socket of its own, which is not the one that listens.
        self.socket.close()
        self.socket = listener
        self.told = told
        self.context = context

    def verify_request(self, request: object, _client: object) -> bool:
        # The folder keeps other users out; that the kernel says so, too, costs nothing.
        if self.context is not None or not isinstance(request, socket.socket):
            return self.context is not None
        credentials = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        # The kernel gives process, user and group.
        return bool(struct.unpack("3i", credentials)[1] == os.getuid())

    def handle_error(self, _request: object, _client: object) -> None:
        """Say nothing: who was not let in knows, and a trace could show what is told."""


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        way: socket.socket = self.request
        way.settimeout(SECONDS)
        if self.server.context is not None:
            way = self.server.context.wrap_socket(way, server_side=True)
        with way:
            way.sendall(_LENGTH.pack(len(self.server.told)) + self.server.told)


def _received(way: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(way, _LENGTH.size))
    if length > _MOST_BYTES:
        raise UnavailableError("the door of the release tells too much")
    return _exactly(way, length)


def _exactly(way: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = way.recv(count - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data
