"""The certificate of a release for people: what was promised to whom, in numbers and in sentences."""

from math import inf

from scipy import special

from lintra_analysis.certificate.certificate import ReleaseRecord
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task
from lintra_protocol.trust import not_verified, trust_in_words

FALSE_ALARM = 0.05
"""How often the adversary that the page speaks of accuses wrongly."""

NEIGHBOURS = {
    "replace-one": "one row is replaced by any other row",
    "zero-out": "one row is replaced by nothing but its noise",
    "add-remove": "the rows of one person are there or not",
    "replace-one within its class": "one row is replaced by another one of the same class",
}


def strongest_test(privacy: PrivacyStatement) -> float | None:
    """Return how often the best test finds out a change that it wrongly accuses of in 5 % of all cases.

    A mu-Gaussian private release gives it Phi(Phi^-1(.05) + mu) at most (Dong, Roth, Su 2022); what the statement
    lists as slack, coalition and shares comes on top. None where no mu is known.
    """
    if privacy.mu == inf:
        return None
    seen = privacy.delta_shares
    found = float(special.ndtr(special.ndtri(min(1.0, FALSE_ALARM + seen)) + privacy.mu))
    return min(1.0, found + seen + privacy.slack + privacy.delta_coalition)


def sentences(record: ReleaseRecord, task: Task) -> list[str]:
    """Return the promise of a release in sentences."""
    privacy = record.privacy
    whom = privacy.persons or "the people behind the rows, each with one row"
    asked = f"{record.num_clients:,} rows were released; the task asked for {task.claim.min_clients:,} at least"
    said = [
        f"Numbers about {asked}. Nobody saw a row: servers held random shares, and what was opened has noise in it.",
        f"The promise is made to {whom}. Compared are two worlds in which {NEIGHBOURS[privacy.neighbours]}.",
    ]
    if privacy.epsilon == inf:
        said.append("Nothing is promised: the statement below has no finite epsilon.")
    found = strongest_test(privacy)
    if found is not None:
        said.append(
            f"Suppose that somebody knows all other rows and tries to tell the two worlds apart. If they may raise a "
            f"false alarm in {FALSE_ALARM:.0%} of cases, they notice a change in at most {found:.1%} of cases. Blind "
            f"guessing would notice {FALSE_ALARM:.0%}."
        )
    if privacy.noise == "servers":
        said.append(
            "This holds however many of the other clients are corrupt, as long as one server is honest: every server "
            "added noise of its own, and that of one is enough. If all servers collude they see the rows."
        )
    elif privacy.max_corrupt_clients:
        said.append(
            f"This holds though up to {privacy.max_corrupt_clients:,} clients leave out their noise and tell the "
            f"adversary everything; {privacy.honest_clients:,} honest ones stand behind every released number."
        )
    if privacy.epsilon_alone < inf:
        said.append(
            f"If everybody but one client was invented, epsilon is at most {privacy.epsilon_alone:.3g} for that one: "
            "its own noise and the floor of an honest server are left."
        )
    # Who decided who the others are, and why nobody checked how long their rows were.
    said += [trust_in_words(task)[2], *filter(None, [not_verified(task)])]
    return said
