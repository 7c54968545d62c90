"""What a task's promise rests on, in the three sentences that a person reads before taking part."""

from math import inf

from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task


def trust_in_words(task: Task) -> tuple[str, str, str]:
    """Return what the promise rests on, what is left if that fails, and who decides it, one sentence each."""
    return _rests_on(task), left_alone(task), _who_enrols(task)


def left_alone(task: Task) -> str:
    """Return what is promised to somebody of whom all others are invented, in one sentence."""
    alone = None if task.study is not None else task.alone_privacy()
    if task.noise == "servers":
        return (
            f"No more than epsilon {task.claim.epsilon} if everybody but you is invented: one honest server is enough."
        )
    if alone is None:
        return "If everybody but you is invented, nothing bounds what is seen of you."
    own = "" if task.claim.epsilon_alone is not None or not _has_company(task) else ", which your own noise leaves"
    return f"At most epsilon {shown(alone)} if everybody but you is invented{own}."


def shown(alone: PrivacyStatement) -> str:
    """Return an epsilon as people read it, rounded up to three digits."""
    return "no number" if alone.epsilon == inf else f"{alone.epsilon:.3g}"


def _has_company(task: Task) -> bool:
    return task.claim.max_corrupt_clients < task.claim.min_clients - 1


def _rests_on(task: Task) -> str:
    claim = task.claim
    who = "real people" if task.contributors is None else "organisations that keep their noise to themselves"
    what = " reports" if task.max_merge > 1 else ""
    if task.noise == "servers" or not _has_company(task):
        return f"Epsilon {claim.epsilon} at delta {claim.delta}, whoever the others are."
    within = f"all of the {claim.min_clients}{what} are {who}"
    if claim.max_corrupt_clients:
        within = f"at most {claim.max_corrupt_clients} of the {claim.min_clients}{what} are not {who}"
    return f"Epsilon {claim.epsilon} at delta {claim.delta} as long as {within}."


def _who_enrols(task: Task) -> str:
    if task.uses_tokens:
        return "The author of the task hands out the places, and decides with them who is counted."
    return "Anybody who reaches the servers can take a place, any number of times."
