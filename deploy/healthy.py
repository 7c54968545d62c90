"""A container's health check: exit 0 if the service in it is ready. Images have no curl, but they have Python.

python healthy.py [HOST:]PORT [PATH]     over HTTP
python healthy.py PORT PATH NAME         over TLS, as a client of the proxy called NAME

Who signed the proxy's certificate is for its clients to check: this asks, inside one container, whether it answers.
"""

import http.client
import ssl
import sys


def main() -> None:
    """Ask, and exit with what was answered."""
    where, path, name = [*sys.argv[1:], *("", "/readyz", "")[len(sys.argv) - 1 :]]
    host, port = ("127.0.0.1:" + where).split(":")[-2:]
    connection: http.client.HTTPConnection
    if name:
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, int(port), timeout=5, context=unchecked)
    else:
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
    connection.request("GET", path, headers={"Host": name or host})
    sys.exit(connection.getresponse().status != 200)


if __name__ == "__main__":
    main()
