"""Options to replay one simulation, and its count of operations at the end of a run."""

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="replay the simulation of one seed")
    parser.addoption("--operations", type=int, default=20_000, help="how many, with --seed")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        counts.update({name: int(str(count)) for name, count in report.user_properties})
    if counts:
        terminalreporter.write_line(f"{counts.total()} simulated operations:")
        for name, count in counts.most_common():
            terminalreporter.write_line(f"{count:9}  {name}")
