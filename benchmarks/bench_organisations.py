"""Five reports of a million rows each: encoded, sent to three servers in this process, released and regressed.

    python benchmarks/bench_organisations.py [--rows 1000000] [--organisations 5] [--columns 8]

Prints seconds of every stage and the largest memory of the process; making the rows is not counted. The servers are
`lintra_protocol.ideal`, bit for bit what the services add up.
"""

import argparse
import resource
import time

import numpy as np

from lintra_analysis import regression
from lintra_analysis.asked.specification import Specification
from lintra_analysis.asked.task import build_task
from lintra_analysis.readings import read
from lintra_analysis.trial.collection import placeholder_keys, placeholder_servers
from lintra_protocol import ideal
from lintra_protocol.randomness import bulk_system_randomness


def main() -> None:
    """Time the whole way of some large reports."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--organisations", type=int, default=5)
    parser.add_argument("--columns", type=int, default=8)
    options = parser.parse_args()
    secret = bulk_system_randomness()
    names = [f"x{number}" for number in range(options.columns)]
    asked = Specification.model_validate(
        {
            "purpose": "a benchmark",
            "columns": [{"name": name, "lower": -3, "upper": 3, "center": 0, "scale": 1} for name in names],
            "mechanism": {"kind": "second_moment", "intercept": "1.5"},
            "row_bound": 4,
            "epsilon": 1,
            "min_clients": options.organisations,
            "max_clients": options.organisations,
            "contributors": {"rows_per_person": 4, "max_rows": options.rows, "person_bound": 6},
        }
    )
    task = build_task(asked, placeholder_servers(secret), placeholder_keys(secret), int(time.time()), secret)
    random, reports, encoding = np.random.default_rng(1), [], 0.0
    for number in range(options.organisations):
        rows = random.normal(size=(options.rows, options.columns))
        rows[:, -1] = rows[:, :-1].sum(axis=1) / 4 + rows[:, -1] / 2
        persons = random.integers(0, options.rows // 2, options.rows)
        keep = np.bincount(persons)[persons] <= 4
        rows, persons = rows[keep], np.unique(persons[keep], return_inverse=True)[1]
        begun = time.perf_counter()
        reports.append(ideal.organisation_report(task, rows, persons, task.not_before, secret))
        encoding += time.perf_counter() - begun
        print(f"organisation {number}: {len(rows):,} rows of {persons.max() + 1:,} persons")
    begun = time.perf_counter()
    found = ideal.release(task, reports, [secret(32) for _ in range(task.num_servers)])
    released = time.perf_counter()
    fit = regression(read(task, found.sketch, found.row_counts), names[-1])
    ended = time.perf_counter()
    print(f"R2 {fit.r2:.4f}, {fit.num_clients:,} rows")
    print(f"encode {encoding:.1f} s, release {released - begun:.2f} s, regress {ended - released:.2f} s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest memory {memory:.2f} GiB; CPU of the process {time.process_time():.1f} s")


if __name__ == "__main__":
    main()
