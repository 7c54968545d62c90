"""How doctors say what they found."""

import pytest

from lintra_service.findings import HealthFinding, Severity, print_findings

TROUBLE = HealthFinding(
    "trouble", "the database is cut short", "lintra server restore --from COPY", "what came after COPY"
)
ADVICE = HealthFinding("advice", "both folders are on one volume", "move key_dir", "nothing")


@pytest.mark.parametrize(("found", "code"), [([], 0), ([ADVICE], 0), ([TROUBLE], 1), ([TROUBLE, ADVICE], 1)])
def test_only_trouble_ends_a_doctor_with_one(found: list[HealthFinding], code: int) -> None:
    assert print_findings(found, lambda line: None) == code


@pytest.mark.parametrize("severity", ["trouble", "advice"])
def test_a_finding_is_printed_with_its_command_and_its_cost(severity: Severity) -> None:
    lines: list[str] = []
    print_findings([HealthFinding(severity, "what", "command", "cost")], lines.append)
    assert lines == [f"{severity.upper():7}  what", "         do:    command", "         costs: cost"]


def test_a_doctor_that_found_nothing_says_so() -> None:
    lines: list[str] = []
    print_findings(iter(()), lines.append)
    assert lines == ["nothing is wrong"]
