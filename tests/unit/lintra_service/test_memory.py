"""What was freed is given back to the system."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
from pathlib import Path
from lintra_service.memory import give_back_large_blocks

if sys.argv[1] == "calm":
    assert give_back_large_blocks()

def work():
    bytes(30 << 20)
    held = [bytes(24 << 20) for _ in range(3)]
    small = bytes(1000)
    del held
    kept.append(small)

kept = []
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
    thread.join()
fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(int(fields["VmRSS"].split()[0]) // 1024)
"""


def resident(how: str) -> int:
    """Return the MiB that a process holds after it freed large blocks."""
    return int(subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator is glibc's")
def test_what_threads_freed_is_not_kept() -> None:
    assert resident("calm") < 45
