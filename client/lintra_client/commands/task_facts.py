"""What `lintra client check` says of a task: fields for programs, and the same with labels for people."""

from collections.abc import Iterator

from lintra_client.task_check import ClientPolicy
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.report.wire import share_bytes
from lintra_protocol.task import Task
from lintra_protocol.trust import not_verified, trust_in_words

_MOST_LISTED, _SHOWN_NAMES = 100, 20
_LABELS = {
    "bytes_to_each_server": "bytes to each server",
    "min_clients": "fewest reports that are released",
    "max_corrupt_clients": "clients that may collude",
    "epsilon_if_colluding": "epsilon if more clients collude",
    "judged_at_delta": "delta at which your limit is judged",
    "judged_epsilon": "epsilon at that delta",
    "rests_on": "whom the promise trusts",
    "promised_to": "promised to",
    "row_count": "number of rows",
    "study_epsilon": "epsilon of both tasks",
    "study_delta": "delta of both tasks",
    "study_judged_epsilon": "epsilon of both tasks at your delta",
    "reports_per_source": "reports that one person may send",
    "max_merge": "windows that may be released together",
    "judged_epsilon_of_all_reports": "epsilon of all these reports together",
    "verified": "proof of reports",
}
"""What people read in the place of a field's name; JSON keeps the name."""


def facts_in_words(task: Task, policy: ClientPolicy) -> Iterator[str]:
    """Yield the facts of a task as lines for people."""
    for name, value in facts(task, policy).items():
        yield f"{_LABELS.get(name, name)}: {_listed(value) if isinstance(value, list) else value}"


def _listed(names: list[str]) -> str:
    """Return names beside each other; of very many the first ones, and how many others there are."""
    if len(names) <= _MOST_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN_NAMES])} and {len(names) - _SHOWN_NAMES:,} more (--json lists them)"


def facts(task: Task, policy: ClientPolicy) -> dict[str, str | list[str]]:
    """Return what a task asks and promises, as `lintra client check --json` prints it."""
    claim, ceiling = task.claim, policy.ceiling
    colluding = epsilons_if_colluding(task.measurement, claim, task.shares_seen)
    return {
        "purpose": task.purpose,
        "mechanism": task.mechanism.kind,
        "columns": [column.name for column in task.columns],
        "servers": [entry.url for entry in task.servers],
        "bytes_to_each_server": [f"{share_bytes(task, server):,}" for server in range(task.num_servers)],
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "neighbours": claim.neighbours,
        "min_clients": str(claim.min_clients),
        "max_corrupt_clients": str(claim.max_corrupt_clients) if task.noise != "servers" else "any number",
        **_noise(task),
        **({"retention": f"shares are kept for {task.retention} s after the release"} if task.retention else {}),
        **_organisations(task),
        "epsilon_if_colluding": [
            f"{percent} %: {epsilon:.4g}"
            if task.contributors is None
            else f"{claim.min_clients * percent // 100} of {claim.min_clients}: {epsilon:.4g}"
            for percent, epsilon in colluding.items()
        ],
        "judged_at_delta": f"{float(ceiling.delta_for(claim)):g}",
        "judged_epsilon": f"{ceiling.epsilon_of(claim, task.worst_privacy()):.6g}",
        **_windows(task, policy),
        "suite": task.suite,
        "rests_on": list(trust_in_words(task)),
        **({} if task.verified is not None else {"verified": not_verified(task)}),
        **_study_facts(task, policy),
    }


def _noise(task: Task) -> dict[str, str | list[str]]:
    """Say who adds the noise, where it is not this client."""
    if task.noise == "clients":
        return {}
    if task.noise == "both":
        return {"noise": "added by this client, and a floor of noise by every server"}
    return {"noise": "added by every server, none by this client: if all servers collude they see the row"}


def _organisations(task: Task) -> dict[str, str | list[str]]:
    """Say to whom a task of organisations promises privacy, and how their rows are counted; nothing of single rows."""
    if task.contributors is None:
        return {}
    return {
        "promised_to": task.contributors.persons,
        "row_count": f"{task.contributors.count}, at most {task.contributors.max_rows} rows an organisation",
    }


def _study_facts(task: Task, policy: ClientPolicy) -> dict[str, str | list[str]]:
    """Return what a study promises and charges, none of a task that belongs to none."""
    if task.study is None:
        return {}
    claim, worst = task.promises()[-1]
    role = "pilot" if task.study.pilot is None else f"main task after pilot {task.study.pilot}"
    return {
        "study": f"{role}; a ledger charges both tasks together, when the pilot's report leaves",
        "study_epsilon": claim.epsilon,
        "study_delta": claim.delta,
        "study_judged_epsilon": f"{policy.ceiling.epsilon_of(claim, worst):.6g}",
    }


def _windows(task: Task, policy: ClientPolicy) -> dict[str, str | list[str]]:
    """Say of a task with windows what they are, and what epsilon all reports that one source may send have together."""
    if task.windows is None:
        return {}
    windows, seconds = task.windows, task.time_precision
    return {
        "windows": f"{windows.max_windows} of {windows.window * seconds} s",
        "reports_per_source": str(windows.reports_per_source),
        **({} if windows.max_merge == 1 else {"max_merge": str(windows.max_merge)}),
        "judged_epsilon_of_all_reports": f"{policy.ceiling.epsilon_of(task.claim, task.worst_together()):.6g}",
    }
