"""How much CPU time a start takes: `python benchmarks/bench_start.py`. The least of several runs, in seconds."""

import resource
import subprocess
import sys

RUNS = 7
STARTS = {
    "python, doing nothing": ("pass", None),
    "lintra --help": ("from lintra_protocol.command import main; main(['--help'])", 0.4),
    "import lintra_client": ("import lintra_client", 0.25),
    "from lintra_client import Client": ("from lintra_client import Client", None),
    "import lintra_analysis": ("import lintra_analysis", 0.6),
    "from lintra_analysis import regression": ("from lintra_analysis import regression", 0.6),
    "from lintra_analysis import open_release": ("from lintra_analysis import open_release", None),
    "from lintra_analysis import connect": ("from lintra_analysis import connect", None),
}
"""What is started, and the most that it should take."""


def cpu_seconds(program: str) -> float:
    """Return the user and system time of a fresh interpreter that runs a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print("| start | CPU seconds | at most |\n| --- | --- | --- |")
    for name, (program, most) in STARTS.items():
        print(f"| `{name}` | {min(cpu_seconds(program) for _ in range(RUNS)):.3f} | {most or ''} |")
