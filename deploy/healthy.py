"""A container's health check: exit 0 if the service in it is ready. Images have no curl, but they have Python.

python healthy.py PORT [PATH]
"""

import sys
import urllib.request

if __name__ == "__main__":
    path = sys.argv[2] if len(sys.argv) > 2 else "/readyz"
    with urllib.request.urlopen(f"http://127.0.0.1:{int(sys.argv[1])}{path}", timeout=3) as answer:
        sys.exit(answer.status != 200)
