"""Reports that lie: each is found by the rule that is meant for it."""

from importlib import import_module

import pytest

from lintra_audit.verify.malicious_reports import LIES, honest_without_root
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.report.report import checks_of, open_block, seal_block
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.rules.verification import parameters_of
from lintra_protocol.verification.checks import accepted, passed_in
from lintra_protocol.verification.points import check_points
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
