"""Vectors of tasks whose servers add the noise: accepted with the least of it, refused with a step less."""

import plain
import plain_verified as verified
from given import MECHANISMS, Vector, bad, claim, definition, good, hexes, seed, task_id
from plain import b64, canonical
from plain_noise import server_sigma
from plain_verified import Sizes

PROVEN: dict[str, object] = {"verification": "norm", "max_rejected": "0.1"}

KINDS: dict[str, dict[str, object]] = {
    "sum": MECHANISMS["sum"],
    "sum, clip count": MECHANISMS["sum, clip count"],
    "osnap": MECHANISMS["osnap"],
    "osnap, clip count": MECHANISMS["osnap, clip count"],
    "overlapping": MECHANISMS["overlapping"] | {"leverage": "0"},
    "overlapping, clip count": MECHANISMS["overlapping, clip count"] | {"leverage": "0"},
    "second_moment": MECHANISMS["second_moment"],
}


def server_noise() -> list[Vector]:
    return _tasks() + _refused() + _reports()


def task(mechanism: dict[str, object], **changes: object) -> dict[str, object]:
    return definition(mechanism=mechanism, noise="servers") | changes


def _tasks() -> list[Vector]:
    """The same noise for four clients and for forty, against none and against all others; for rows and null rows."""
    result = []
    for name, plainly in KINDS.items():
        for said, promised, changes in (
            ("four clients", claim(), {}),
            ("forty clients, all others corrupt", claim(min_clients=40, max_corrupt_clients=39), {}),
            ("two clients", claim(min_clients=2), {}),
            ("the null row", claim(neighbours="zero-out"), {}),
            ("verified", claim(), PROVEN),
        ):
            null = promised["neighbours"] == "zero-out"
            sigma = server_sigma(plainly, 1.0, 1e-6, null=null)
            for less in (0, 1):
                whole = task(plainly | {"sigma": sigma - less}, claim=promised, **changes)
                given: dict[str, object] = {"text": canonical(whole)}
                about = f"{name}, noise of servers, {said}"
                result.append(
                    bad(f"{about}: a step too little", "check_task", "false_claim", **given)
                    if less
                    else good(f"{about}: {sigma}", "check_task", b64(task_id(whole)), **given)
                )
    return result


def _refused() -> list[Vector]:
    enough = MECHANISMS["sum"] | {"sigma": 1000}
    overlapping = MECHANISMS["overlapping"] | {"sigma": 1000}
    people = {
        "kind": "organisations",
        "rows_per_person": 1,
        "max_rows": 10,
        "organisations_per_person": 1,
        "count": "exact",
    }
    cases: list[tuple[str, str, dict[str, object]]] = [
        ("noise of clients, which is spelled out", "invalid_message", task(enough, noise="clients")),
        ("noise of nobody", "invalid_message", task(enough, noise="nobody")),
        ("a planned leverage", "invalid_task", task(overlapping)),
        ("a part of delta for coalitions", "invalid_task", task(enough, claim=claim(delta_coalition="0.0000001"))),
        ("copies with noise of their own", "unsupported_feature",
         task(MECHANISMS["published"], claim=claim(min_clients=300), max_clients=1000)),
        ("Wishart noise", "unsupported_feature",
         task(MECHANISMS["second_moment_wishart"], claim=claim(min_clients=300), max_clients=1000)),
        ("organisations", "unsupported_feature", task(enough, contributors=people)),
        ("a study", "unsupported_feature",
         task(enough, study={"epsilon": "1", "delta": "0.000001", "delta_coalition": "0", "share": "0.1"})),
    ]  # fmt: skip
    return [
        bad(f"noise of servers and {name}", "check_task", token, text=canonical(each)) for name, token, each in cases
    ]


def _reports() -> list[Vector]:
    """A row without noise, as long as a row may be, with a proof of exactly that: R^2 is the squared bound, 16^2."""
    result = []
    for servers in (2, 3):
        whole = definition(servers=servers, mechanism=MECHANISMS["sum"] | {"sigma": 1000}, noise="servers") | PROVEN
        random = plain.keystream(seed("a report without noise"), 4000)
        made = verified.report(task_id(whole), Sizes(2, servers, 16**2), [0, -16], 12, random, seeded=False)
        output = {
            "report_id": made["report_id"].hex(),  # type: ignore[attr-defined]
            "header": made["header"].hex(),  # type: ignore[attr-defined]
            "shares": hexes(made["shares"]),  # type: ignore[arg-type]
        }
        given: dict[str, object] = {"task": canonical(whole), "time": 12, "random": random.hex()}
        result.append(good(f"a report without noise to {servers} servers", "make_report", output, row=["0", "-16"],
                           **given))  # fmt: skip
    return result
