"""The result of one attack."""

from dataclasses import dataclass
from typing import Literal

from lintra_audit.verify.rules import RULES


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
