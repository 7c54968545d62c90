"""What a task's promise rests on, in the three sentences that a person reads before taking part."""

from math import inf

from lintra_protocol.errors import LintraError
from lintra_protocol.privacy.statement import Claim, NoiseBy, PrivacyStatement
from lintra_protocol.task import Task
from lintra_protocol.verification.parameters import WORD_BYTES

MOST_BYTES = 1_000_000
"""Of a report, to all servers together: a task with longer ones is verified only if its author asks for it."""

NO_BOUND = "If everybody but you is invented, nothing bounds what is seen of you (alone: no bound)."


def trust_in_words(task: Task) -> tuple[str, str, str]:
    """Return what the promise rests on, what is left if that fails, and who decides it, one sentence each."""
    alone = None if task.study is not None and task.noise != "both" else task.alone_privacy()
    return _rests_on(task), left_alone(task.claim, task.noise, alone), _who_enrols(task)


def left_alone(claim: Claim, noise: NoiseBy, alone: PrivacyStatement | None) -> str:
    """Return what is left for somebody of whom all others are invented, in one sentence; `alone` is its statement."""
    if noise == "servers":
        return f"No more than epsilon {claim.epsilon} if everybody but you is invented: one honest server is enough."
    if alone is None or alone.epsilon == inf:
        return NO_BOUND
    own = "" if claim.epsilon_alone is not None or not _has_company(claim) else ", which your own noise leaves"
    return f"At most epsilon {alone.epsilon:.3g} if everybody but you is invented{own}."


def _has_company(claim: Claim) -> bool:
    return claim.max_corrupt_clients < claim.min_clients - 1


def _rests_on(task: Task) -> str:
    claim = task.claim
    who = "real people" if task.contributors is None else "organisations that keep their noise to themselves"
    what = " reports" if task.max_merge > 1 else ""
    if task.noise == "servers" or not _has_company(claim):
        return f"Epsilon {claim.epsilon} at delta {claim.delta}, whoever the others are."
    within = f"all of the {claim.min_clients}{what} are {who}"
    if claim.max_corrupt_clients:
        within = f"at most {claim.max_corrupt_clients} of the {claim.min_clients}{what} are not {who}"
    return f"Epsilon {claim.epsilon} at delta {claim.delta} as long as {within}."


def _who_enrols(task: Task) -> str:
    if task.uses_tokens:
        return "The author of the task hands out the places, and decides with them who is counted."
    return "Anybody who reaches the servers can take a place, any number of times."


def not_verified(task: Task) -> str:
    """Return in words why reports of a task are not verified; "" if they are."""
    if task.verified is not None:
        return ""
    return f"Not verified: {_reason(task)}."


def _reason(task: Task) -> str:
    if task.contributors is not None:
        return "the reports of organisations are not verified so far"
    if task.study is not None:
        return "a task of a study, or one of two rounds, is not verified so far"
    if task.share_form == "spread":
        return "shares of the form 'spread' are not verified so far"
    if task.measurement.squared_length is None:
        return f"reports of {task.mechanism.kind} with these options have no proven bound"
    servers = task.num_servers if task.share_form == "uniform" else 1
    if WORD_BYTES * task.num_words * servers > MOST_BYTES:
        return "with proofs a report would take more than a megabyte, and the author of the task did not ask for it"
    asked = task.model_copy(update={"verification": "norm", "max_rejected": "0.1"})
    try:
        asked.noise_claim  # noqa: B018
    except LintraError as error:
        return error.detail.removeprefix("verification: ")
    return "the author of the task did not ask for it"
