"""Writes a table of flights with a yes or no: whether each came late. `python deploy/late_flights.py late.csv`.

Everything about the table was stated before any of it was analysed. A flight is late from fifteen minutes on, as the US
Department of Transportation counts; the features are what stands in the timetable; the rows are the first ones of the
demonstration's public order.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from flights import load_flights

LATE = 15
"""Minutes after the timetable from which an arrival is late."""

FEATURES = ("month", "hour", "distance")
"""What is known of a flight when its ticket is sold; the hour is that of the timetable."""

ROWS = 20_000


def write(file: Path, rows: int = ROWS) -> int:
    """Write so many flights as CSV and return how many of them were late."""
    flights, names = load_flights(rows)
    late = flights[:, names.index("arr_delay")] >= LATE
    chosen = flights[:, [names.index(name) for name in FEATURES]]
    with file.open("w", newline="") as opened:
        out = csv.writer(opened)
        out.writerow([*FEATURES, "late"])
        out.writerows(np.column_stack([chosen, late]).astype(int).tolist())
    return int(late.sum())


def main() -> None:
    """Write the file that the first word names, with as many rows as the second says."""
    file, rows = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ROWS
    sys.stdout.write(f"{file}: {rows:,} flights, {write(file, rows):,} of them late\n")


if __name__ == "__main__":
    main()
