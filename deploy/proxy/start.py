"""Start the reverse proxy with TLS, and keep it right: certificates are renewed, a backend that moved is found again.

Settings are variables:

    PROXY_BACKEND    name and port of the service behind, such as backend:8101
    PROXY_NAMES      names and addresses under which clients reach this proxy, separated by commas
    PROXY_PORT       where it listens (8443)

A certificate of a public authority lies in /given as tls.crt and tls.key. Without one the proxy makes an authority of
its own at the first start, which can sign for these names only: its key stays in /tls, and /authority/ca.pem is what
clients have to trust.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOOK_SECONDS = 5
"""Between two looks at the backend's address and at the certificate."""
TLS_LINES = """listen {port} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.3;
        ssl_session_tickets off;"""


@dataclass(frozen=True)
class Settings:
    """What the variables say, and where things lie."""

    backend: str
    names: tuple[str, ...]
    port: int = 8443
    tls: Path = Path("/tls")
    authority: Path = Path("/authority")
    given: Path = Path("/given")
    work: Path = Path("/tmp")

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Settings":
        """Read the variables.

        Raises:
            ValueError: one is missing.
        """
        for name in ("PROXY_BACKEND", "PROXY_NAMES"):
            if not variables.get(name):
                raise ValueError(f"set {name}: {__doc__}")
        names = tuple(name.strip() for name in variables["PROXY_NAMES"].split(",") if name.strip())
        return cls(variables["PROXY_BACKEND"], names, int(variables.get("PROXY_PORT", "8443")))


def certificate(settings: Settings, now: datetime) -> tuple[Path, Path]:
    """Return the files of certificate and key that hold now, and make them where nobody gave any."""
    given = settings.given / "tls.crt", settings.given / "tls.key"
    if all(path.exists() for path in given):
        return given
    # Only who needs an authority needs the package that makes one.
    from certificates import Pair, ensure_authority, ensure_certificate

    authority = Pair(settings.tls / "ca.pem", settings.tls / "ca.key")
    own = Pair(settings.tls / "tls.crt", settings.tls / "tls.key")
    ensure_authority(authority, list(settings.names), now)
    ensure_certificate(own, authority, list(settings.names), now)
    shown = settings.authority / "ca.pem"
    if not shown.exists() or shown.read_bytes() != authority.certificate.read_bytes():
        new = shown.with_name("ca.pem.new")
        new.write_bytes(authority.certificate.read_bytes())
        new.replace(shown)
    return own.certificate, own.key


def configuration(settings: Settings, files: tuple[Path, Path]) -> str:
    """Return nginx's configuration with this backend and TLS.

    Raises:
        ValueError: the shipped file has not the two lines that are replaced.
    """
    text = (HERE / "nginx.conf").read_text()
    tls = TLS_LINES.format(port=settings.port, certificate=files[0], key=files[1])
    for before, after in (("listen 8101;", tls), ("server backend:8101;", f"server {settings.backend};")):
        if text.count(before) != 1:
            raise ValueError(f"nginx.conf has not one line `{before}`")
        text = text.replace(before, after)
    return text


def addresses(backend: str) -> frozenset[str]:
    """Return where the backend is now; nowhere if its name is not known."""
    host, _, port = backend.rpartition(":")
    try:
        return frozenset(str(found[4][0]) for found in socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM))
    except OSError:
        return frozenset()


def main() -> None:
    """Run nginx until somebody asks to stop, or until it ends by itself."""
    settings = Settings.of(os.environ)
    # The first process of a container ignores what it does not handle.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: sys.exit(0))
    while not (where := addresses(settings.backend)):
        time.sleep(0.5)
    files = certificate(settings, datetime.now(UTC))
    path = settings.work / "nginx.conf"
    path.write_text(configuration(settings, files))
    seen = files[0].read_bytes()
    command = ["nginx", "-p", str(settings.work), "-c", str(path), "-g", "daemon off;"]
    with subprocess.Popen(command) as nginx:
        for each in (signal.SIGTERM, signal.SIGINT):
            # nginx finishes what it is answering.
            signal.signal(each, lambda *_: nginx.send_signal(signal.SIGQUIT))
        while nginx.poll() is None:
            try:
                nginx.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                now_at = addresses(settings.backend)
                shown = certificate(settings, datetime.now(UTC))[0].read_bytes()
                # A backend that is away for a moment has no address; the old one may come back.
                if shown != seen or (now_at and now_at != where):
                    where, seen = now_at or where, shown
                    nginx.send_signal(signal.SIGHUP)
        sys.exit(nginx.returncode)


if __name__ == "__main__":
    main()
