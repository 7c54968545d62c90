"""A container's health check: exit 0 if the service in it is ready. Images have no curl, but they have Python."""

import sys
import urllib.request

if __name__ == "__main__":
    with urllib.request.urlopen(f"http://127.0.0.1:{int(sys.argv[1])}/readyz", timeout=3) as answer:
        sys.exit(answer.status != 200)
