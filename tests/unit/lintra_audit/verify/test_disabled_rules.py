"""Rules that are switched off one by one: what is replaced for each exists."""

import ast
from pathlib import Path

from lintra_audit.verify import disabled_rules
from lintra_audit.verify.attack_result import RULES
from lintra_audit.verify.malicious_reports import LIES


def test_every_rule_is_attacked_and_what_is_replaced_for_it_exists() -> None:
    assert set(disabled_rules.WITHOUT) == set(RULES)
    for without in disabled_rules.WITHOUT.values():
        assert all(hasattr(owner, name) for owner, name, _ in without())
    source = Path(disabled_rules.__file__).with_name("server_attacks.py").read_text("utf-8")
    named = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    assert {*(lie.rule for lie in LIES), "margin", "database", *(named & set(RULES))} == set(RULES)
