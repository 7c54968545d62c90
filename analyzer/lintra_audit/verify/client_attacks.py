"""Attacks of hostile clients: all false reports on correct servers, then each on servers that lack its rule."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from math import sqrt

import numpy as np

from lintra_audit.verify.actors import Actors
from lintra_audit.verify.attack_result import AttackResult
from lintra_audit.verify.malicious_reports import LIES, MaliciousReport, honest_reports, honest_without_root, row_of
from lintra_audit.verify.processes import ServerFolder
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.crypto.sealing import CLASSICAL
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import AbandonedError, CohortTooSmallError, LintraError
from lintra_protocol.report.report import Report
from lintra_protocol.rules.verification import parameters_of
from lintra_protocol.task import Task

Servers = Callable[[int, str | None], AbstractContextManager[list[ServerFolder]]]
"""Runs so many servers, without a rule if one is named, for the length of a block."""

MIN_CLIENTS = 12
NUM_HONEST = 16

SPECIFICATION: dict[str, object] = {
    "purpose": "lintra audit verify",
    "columns": [{"name": name, "lower": -1, "upper": 1} for name in "ab"],
    "mechanism": {"kind": "sum", "clip_count_weight": 0},
    "row_bound": 1,
    "epsilon": 2,
    "delta": 1e-6,
    "min_clients": MIN_CLIENTS,
    "verification": "norm",
    "suite": CLASSICAL,
}


def all_lies(
    servers: Servers, lies: Sequence[MaliciousReport] = LIES, kept: str | None = None
) -> Iterator[AttackResult]:
    """Send false reports to two servers that keep all rules but `kept`, then each to two that lack its rule."""
    with servers(2, kept) as places:
        with_rule = _together(places, lies)
    for rule in dict.fromkeys(lie.rule for lie in lies):
        with servers(2, rule) as places:
            for lie in lies:
                if lie.rule == rule:
                    yield AttackResult(lie.name, "client", f"a client {lie.told}", rule, *with_rule[lie.name],
                                  *_alone(places, lie))  # fmt: skip


def _together(places: Sequence[ServerFolder], lies: Sequence[MaliciousReport]) -> dict[str, tuple[str, bool]]:
    """Return what became of each lie in a cohort of honest reports and all lies."""
    exchange = Actors.begin(places, {**SPECIFICATION, "max_rejected": "0.49"})
    task = exchange.task
    honest = honest_reports(task, max(NUM_HONEST, MIN_CLIENTS + len(lies)))
    told = {lie.name: lie.report(task) for lie in lies}
    refused: dict[bytes, str] = {}
    for server in range(len(places)):
        refused |= exchange.upload(server, [*honest, *told.values()])
    try:
        verdict, total = exchange.release()
    except LintraError as error:
        return {lie.name: (f"no release: {error.token}", False) for lie in lies}
    accepted = verdict.message.root
    whole = bool((total[0] == _sum(task, honest)).all()) and accepted == _root(honest)
    found = {}
    for lie in lies:
        reason = refused.get(told[lie.name].report_id)
        if reason is not None:
            found[lie.name] = f"refused at the door ({reason})", whole and lie.rule == "format"
        else:
            found[lie.name] = (
                "rejected; the release is the sum of the honest reports" if whole
                else "the release is not the sum of the honest reports",
                whole and lie.rule != "format",
            )  # fmt: skip
    return found


def _alone(places: Sequence[ServerFolder], lie: MaliciousReport) -> tuple[str, bool]:
    """Return the effect of a false report on servers that lack its rule, and whether it is as described."""
    exchange = Actors.begin(places, SPECIFICATION)
    task = exchange.task
    make = honest_without_root if lie.rule == "root of -1" else honest_reports
    honest, told = make(task, MIN_CLIENTS + 2), lie.report(task)
    for server in range(len(places)):
        if exchange.upload(server, [*honest, told]):
            return "refused at the door all the same", False
    verdict, total = exchange.release()
    if verdict.message.root != _root([*honest, told]):
        return "rejected all the same", False
    moved = sqrt(sum(float(word) ** 2 for word in total[0] - _sum(task, honest)))
    bound = sqrt(parameters_of(task).squared_bound)
    if lie.why_none is not None:
        return f"accepted, and moves the sum no farther than an honest report: {lie.why_none}", moved <= bound
    return f"accepted: moves the sum {moved / bound:.3g} times as far as any report may", moved > bound


def margin(servers: Servers, kept: str | None = None) -> AttackResult:
    """Send one hostile report among the fewest that the claim allows."""
    lie = LIES[0]
    with servers(2, kept) as places:
        said, stopped = _waits(places, lie)
    with servers(2, "margin") as places:
        exchange = Actors.begin(places, SPECIFICATION)
        reports = [*honest_reports(exchange.task, MIN_CLIENTS - 1), lie.report(exchange.task)]
        for server in range(2):
            exchange.upload(server, reports)
        broken, shown = "the batch was released", False
        try:
            exchange.release()
        except CohortTooSmallError:
            try:
                exchange.inventory(0)
            except AbandonedError:
                broken, shown = f"the batch was closed, and is lost with its {MIN_CLIENTS - 1} honest reports", True
    told = f"a client sends one false report to a batch of {MIN_CLIENTS}, the fewest that the claim allows"
    return AttackResult("one report too few", "client", told, "margin", said, stopped, broken, shown)


def _waits(places: Sequence[ServerFolder], lie: MaliciousReport) -> tuple[str, bool]:
    exchange = Actors.begin(places, SPECIFICATION)
    honest, told = honest_reports(exchange.task, MIN_CLIENTS + 1), lie.report(exchange.task)
    for server in range(2):
        exchange.upload(server, [*honest[: MIN_CLIENTS - 1], told])
    try:
        exchange.inventory(0)
    except CohortTooSmallError:
        for server in range(2):
            exchange.upload(server, honest[MIN_CLIENTS - 1 :])
        _, total = exchange.release()
        return "the batch stayed open, and was released with the reports that followed", bool(
            (total[0] == _sum(exchange.task, honest)).all()
        )
    return "the batch was closed", False


def _sum(task: Task, reports: Sequence[Report]) -> IntArray:
    total: IntArray = np.sum([row_of(task, report) for report in reports], axis=0)
    return total


def _root(reports: Sequence[Report]) -> str:
    return base64url(ReportIds.of(report.report_id for report in reports).root)
