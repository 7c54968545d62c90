"""A container's health check: exit 0 as soon as the service in it is ready, 1 if it is not within WAIT_SECONDS.

python -ISE healthy.py [HOST:]PORT [PATH]     over HTTP
python -ISE healthy.py PORT PATH NAME         over TLS, as a client of the proxy called NAME

It waits because an engine asks once in ten seconds: a service that is ready just after it was asked would count as
starting for ten more. And it speaks to a socket itself, since loading Python's HTTP client takes longer than all the
rest, which counts on a machine where eight containers start at once. Images have no curl, but they have Python.

Who signed the proxy's certificate is for its clients to check: this asks, inside one container, whether it answers.
"""

import socket
import sys
import time

WAIT_SECONDS = 20.0
"""Less than the timeout that compose files give a check."""
ANSWER_SECONDS = 5.0
PAUSE_SECONDS = 0.25


def ready(host: str, port: int, path: str, name: str) -> bool:
    """Ask once, and return whether the answer was 200."""
    with socket.create_connection((host, port), ANSWER_SECONDS) as plain:
        connection: socket.socket = plain
        if name:
            # Only who speaks TLS needs the module.
            import ssl

            unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
            connection = unchecked.wrap_socket(plain, server_hostname=name)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {name or host}\r\nConnection: close\r\n\r\n".encode())
        with connection.makefile("rb") as answer:
            return answer.readline(100).split()[1:2] == [b"200"]


def main() -> None:
    """Ask until the answer is 200, or until there was none in time."""
    where, path, name = [*sys.argv[1:], *("", "/readyz", "")[len(sys.argv) - 1 :]]
    host, port = ("127.0.0.1:" + where).split(":")[-2:]
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            if ready(host, int(port), path, name):
                sys.exit(0)
        except OSError:
            # Nobody listens yet, or the name is not known yet.
            pass
        if time.monotonic() > deadline:
            sys.exit(1)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
