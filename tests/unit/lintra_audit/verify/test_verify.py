"""`lintra audit verify`: its attacks, and that it fails where a rule is missing that should be kept."""

import ast
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lintra_audit.release.cli import app
from lintra_audit.verify import disabled_rules
from lintra_audit.verify.malicious_reports import LIES, honest_without_root
from lintra_audit.verify.one_word_leak import added, pair_in, pair_of, rows_that_fit
from lintra_audit.verify.rules import RULES
from lintra_audit.verify.run import known_attacks
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.report.report import checks_of, open_block, seal_block
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.rules.verification import parameters_of
from lintra_protocol.verification.checks import accepted, check_shares, passed_in
from lintra_protocol.verification.fields import ROOTS
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import check_points
from lintra_protocol.verification.proof import prove
from lintra_protocol.verification.shares import split_proven
from support import make_task

POINTS = check_points(bytes(32))
TASK = make_task("sum", verification="norm", max_rejected="0.1", num_servers=2)


def shares_of(report):  # type: ignore[no-untyped-def]
    payloads = [share[BLIND_BYTES + 1 :] for share in report.shares]
    return [checks_of(TASK, server, payload, POINTS) for server, payload in enumerate(payloads)]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_every_lie_is_found_by_its_rule_and_by_no_weaker_one(lie) -> None:  # type: ignore[no-untyped-def]
    report = lie.report(TASK)
    key = SealingKey.generate(TASK.suite, expand(bytes(32), "key"))
    refused = [
        isinstance(open_block(TASK, server, seal_block(TASK, server, bytes(16), key.public_bytes, [report]),
                              lambda _: key)[0], Exception)
        for server in range(2)
    ]  # fmt: skip
    assert any(refused) == (lie.rule == "format")
    found = bool(accepted(parameters_of(TASK), shares_of(report), POINTS)[0])
    assert found == (lie.rule == "format")
    if lie.rule == "four primes":
        assert passed_in(parameters_of(TASK), shares_of(report))[:, 0].tolist() == [True, True, False, False]


def test_lies_about_blinds_pass_a_check_without_i_as_honest_reports_for_it_do(monkeypatch: pytest.MonkeyPatch) -> None:
    lie = next(lie for lie in LIES if lie.rule == "root of -1").report(TASK)
    honest = honest_without_root(TASK, 1)[0]
    monkeypatch.setattr(import_module("lintra_protocol.verification.checks"), "ROOTS", (0, 0, 0, 0))
    assert all(accepted(parameters_of(TASK), shares_of(report), POINTS)[0] for report in (lie, honest))


def test_one_usable_point_says_nothing_of_a_row_and_a_second_or_a_bad_one_says_all() -> None:
    parameters, row = Parameters(1, 2, 10**8), 517
    payloads = split_proven(
        parameters, prove(parameters, np.array([[row]]), expand(bytes(32), "a")), expand(bytes(32), "b")
    )

    def opened(point: int) -> tuple[int, int]:
        first = payloads[0][0].tobytes()
        # The first server's share in plain integers is that of a last server, but for the offset.
        words = Parameters(1, 2, 10**8)
        moved = sum(words.offset * pow(point, k, disabled_rules.points.PRIMES[0]) for k in range(words.padded))
        inverse = pow(point, -1, disabled_rules.points.PRIMES[0])
        back = sum(words.offset * pow(inverse, k, disabled_rules.points.PRIMES[0]) for k in range(words.padded))
        own = pair_of(parameters, first, point)
        return added([(own[0] + moved, own[1] + back), pair_of(parameters, payloads[1][0].tobytes(), point)])

    second = check_points(bytes(31) + b"1")
    tried = range(row - 20, row + 21)
    known = added(pair_in(parameters, check_shares(parameters, j, each, POINTS).tobytes(), 0)
                  for j, each in enumerate(payloads))  # fmt: skip
    assert known == opened(POINTS[0])
    assert rows_that_fit(parameters, tried, [POINTS], [known]) == list(tried)
    assert rows_that_fit(parameters, tried, [POINTS, second], [known, opened(second[0])]) == [row]
    bad = (ROOTS[0], *POINTS[1:])
    assert rows_that_fit(parameters, tried, [bad], [opened(bad[0])]) == [row]


def test_every_rule_is_attacked_and_what_is_replaced_for_it_exists() -> None:
    assert set(disabled_rules.WITHOUT) == set(RULES)
    for without in disabled_rules.WITHOUT.values():
        assert all(hasattr(owner, name) for owner, name, _ in without())
    source = Path(disabled_rules.__file__).with_name("server_attacks.py").read_text("utf-8")
    named = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    assert {*(lie.rule for lie in LIES), "margin", *(named & set(RULES))} == set(RULES)


def test_unknown_attacks_and_rules_are_refused_with_the_names_of_those_there_are() -> None:
    for option, known in (("--attack", "shares of two"), ("--fault", "late matrix")):
        result = CliRunner().invoke(app, ["verify", option, "nothing"])
        assert result.exit_code == 2
        assert known.split()[0] in result.output


@pytest.mark.slow
def test_every_attack_on_real_servers_fails_against_its_rule_and_works_without_it() -> None:
    result = CliRunner().invoke(app, ["verify", "--json"])
    document = json.loads(result.stdout)
    assert [attack["name"] for attack in document["attacks"]] == known_attacks()
    assert [attack["name"] for attack in document["attacks"] if attack["verdict"] != "pass"] == []
    assert result.exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "attack"), [("verdict", "added"), ("agreement", "two bodies"),
                                              ("late matrix", "isolation")])  # fmt: skip
def test_an_audit_of_servers_that_lack_a_rule_ends_with_status_1(rule: str, attack: str) -> None:
    result = CliRunner().invoke(app, ["verify", "--attack", attack, "--fault", rule])
    assert result.exit_code == 1
    assert "verdict: fail" in result.stdout
