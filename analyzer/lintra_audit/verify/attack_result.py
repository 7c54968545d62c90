"""The rules that the audit takes out of servers, one at a time, and the result of an attack on a server without one."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Rule:
    """A rule that a server may lack.

    `number` says where it stands in docs/reference/protocol-rules.md#rules, docs/explanation/verified.md or
    docs/decisions; `says` are the rule, in words.
    """

    number: str
    says: str


RULES: dict[str, Rule] = {
    "verdict": Rule("R15", "a report whose check fails is left out"),
    "four primes": Rule("verified.md", "a check holds in all four fields, not in two"),
    "root of -1": Rule("verified.md", "blinds enter a column with i, so that they cannot touch its length"),
    "format": Rule("R4", "words and elements of a share are in their range"),
    "margin": Rule("R5", "a batch closes with as many reports more as may be rejected"),
    "limit": Rule("R9", "no more than max_rejected of a cohort may fail"),
    "agreement": Rule("R10", "all servers come to one verdict, and nonces are those committed to"),
    "signed bodies": Rule("R15", "a body is the one that its server signed"),
    "usable points": Rule("R14", "no check is computed at a point where blinds hide nothing"),
    "one check": Rule("R14", "a report is checked at one point only, ever"),
    "late matrix": Rule("R8", "the matrix is drawn after the verdict"),
    "database": Rule("decision 0105", "what a database says is held against the key folder"),
}
"""By name."""


@dataclass(frozen=True)
class AttackResult:
    """One attack on real servers, with the rule that stops it and without."""

    name: str
    by: Literal["client", "server", "analyzer", "editor"]
    told: str  #: what it does, in words
    rule: str  #: the name of the rule that stops it
    kept: str  #: what happened where all rules are kept
    stopped: bool  #: whether that is what the rule promises
    broken: str  #: what happened where this rule is off
    shown: bool  #: whether the attack worked there, or did no harm as its description says

    @property
    def passed(self) -> bool:
        """Return whether the rule stops the attack, and is what stops it."""
        return self.stopped and self.shown

    def document(self) -> dict[str, object]:
        """Return all of it for JSON."""
        rule = RULES[self.rule]
        return {
            "name": self.name,
            "by": self.by,
            "told": self.told,
            "rule": {"name": self.rule, "number": rule.number, "says": rule.says},
            "with_rule": {"happened": self.kept, "stopped": self.stopped},
            "without_rule": {"happened": self.broken, "shown": self.shown},
            "verdict": "pass" if self.passed else "fail",
        }
