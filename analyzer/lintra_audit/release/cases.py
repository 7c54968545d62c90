"""The cases of an audit: the standard ones of all mechanisms, a given task, or a small twin of it."""

from lintra_audit.kinds.kind_audit import AUDITS, OrganisationAudit, Planted
from lintra_audit.release.streams import stream_case, twin_of_stream
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.planted_faults import FAULTS
from lintra_audit.trials.simulated_release import HONEST, Seams
from lintra_audit.trials.streams import STREAM_FAULTS
from lintra_protocol.task import Task

MAX_NUMBERS = 64
"""Words of noise in one run, clients times words, up to which a task is audited as it is."""


def standard_cases() -> list[Case]:
    """Return what `lintra audit release` runs by default."""
    alone = [case for audit in AUDITS.all().values() for case in audit.cases()]
    return [*alone, *(case for audit in _of_organisations() for case in audit.cases()), stream_case()]


def planted_faults() -> dict[str, Planted]:
    """Return the mistakes of all mechanisms that an audit can be run with, by name."""
    of_each = [audit.faults for audit in AUDITS.all().values()] + [audit.faults for audit in _of_organisations()]
    return {name: planted for faults in of_each for name, planted in faults.items()}


def _of_organisations() -> list[OrganisationAudit]:
    return [audit.organisations for audit in AUDITS.all().values() if audit.organisations is not None]


def seams_of(fault: str | None) -> Seams:
    """Return the seams with one fault planted, or the honest ones.

    Raises ValueError if there is no such fault; the text names those that there are.
    """
    if fault is None:
        return HONEST
    of_streams = {name: Seams(windows=windows) for name, windows in STREAM_FAULTS.items()}
    planted = FAULTS | of_streams | {name: planted.seams for name, planted in planted_faults().items()}
    if fault not in planted:
        raise ValueError(f"no fault {fault!r}; there are {', '.join(planted)}")
    return planted[fault]


def cases_of_task(task: Task) -> tuple[list[Case], str]:
    """Return audits of a task at its minimum cohort, or of a twin of a size that can be run often; and say which.

    With two layers of noise what is promised to a client of whom all others are invented is audited as well.

    The twin has the same kind of mechanism with the same options, neighbours and delta, for a small cohort of short
    rows. Its noise is set so that its mu is the task's; with several entries per column, where mu depends on the
    matrix, or with two layers of noise, it is calibrated to the task's claim instead.
    """
    task.check()
    if task.stream is not None:
        case = twin_of_stream(task)
        return [case], f"a {case.about}, with the task's matrix and claim"
    audit, num_clients = AUDITS[task.mechanism.kind], task.claim.min_clients
    if num_clients * task.num_words <= MAX_NUMBERS:
        return _cases(task, f"the task itself, n = {num_clients}"), "the task itself"
    twin = audit.twin(task)
    who = "clients" if task.contributors is None else "organisations"
    size = f"n = {twin.claim.min_clients}, m = {twin.mechanism.num_rows}, d = {twin.num_columns}"
    said = (
        f"a twin ({size}) with the task's {'claim' if task.setting.floor_servers else audit.kept(task)}: the task's "
        f"own minimum cohort, {num_clients} {who} with {task.num_words} words each, is too large to be run often enough"
    )
    return _cases(twin, f"twin: {size}"), said


def _cases(task: Task, about: str) -> list[Case]:
    clients = task.claim.min_clients
    cases = [Case("task", about, lambda: task, clients)]
    if task.setting.floor_servers:
        cases.append(Case("alone", f"{about}, all others invented", lambda: task, clients, alone=True))
    return cases
