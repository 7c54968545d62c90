"""A finding of a doctor: what is wrong, the one command that repairs it, and what that command costs.

`lintra server doctor` and `lintra analyzer doctor` print findings in this form and end with the same exit codes:
0 where nothing is wrong or where there is advice only, 1 where there is trouble.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["trouble", "advice"]
"""Trouble: something does not work, or will soon not work. Advice: it works, and could stand more safely."""

WELL, SICK = 0, 1
"""The exit codes of a doctor."""


@dataclass(frozen=True)
class HealthFinding:
    """One thing that is not as it should be."""

    severity: Severity  #: whether somebody must act
    what: str  #: what is wrong, as a sentence that names the file, table or row
    command: str  #: the one command that mends it, as it is typed; or what to do by hand, if no command can
    cost: str  #: what the command takes away or how long it needs; "nothing" if neither

    def lines(self) -> tuple[str, str, str]:
        """Return the finding as it is printed."""
        return (
            f"{self.severity.upper():7}  {self.what}",
            f"         do:    {self.command}",
            f"         costs: {self.cost}",
        )


def print_findings(findings: Iterable[HealthFinding], write: Callable[[str], None] = print) -> int:
    """Print every finding as it comes, and return the exit code: 1 if there is trouble, else 0.

    `findings` may be a generator, so that what was found before a long look is seen at once.
    """
    found: set[Severity] = set()
    for finding in findings:
        for line in finding.lines():
            write(line)
        found.add(finding.severity)
    if not found:
        write("nothing is wrong")
    return SICK if "trouble" in found else WELL


def print_findings_as_json(findings: Iterable[HealthFinding], write: Callable[[str], None] = print) -> int:
    """Print all findings as one JSON document, and return the exit code."""
    found = list(findings)
    is_sick = any(finding.severity == "trouble" for finding in found)
    write(json.dumps({"well": not is_sick, "findings": [asdict(finding) for finding in found]}, indent=2))
    return SICK if is_sick else WELL
