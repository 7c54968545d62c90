"""The result of one attack."""

from dataclasses import dataclass
from typing import Literal

from lintra_audit.verify.rules import RULES


@dataclass(frozen=True)
class AttackResult:
    """One attack on real servers, with the rule that stops it and without.

    Attributes:
        told: what it does, in words.
        rule: the name of the rule that stops it.
        kept: what happened where all rules are kept.
        stopped: whether that is what the rule promises.
        broken: what happened where this rule is off.
        shown: whether the attack worked there, or did no harm as its description says.
    """

    name: str
    by: Literal["client", "server", "analyzer", "editor"]
    told: str
    rule: str
    kept: str
    stopped: bool
    broken: str
    shown: bool

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
