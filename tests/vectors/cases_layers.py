"""Vectors of tasks with two layers of noise: accepted with the least of both, refused with a step less of either."""

from cases_noise import PROVEN
from given import MECHANISMS, Vector, bad, claim, definition, good, task_id
from plain import b64, canonical, gaussian_mu
from plain_layers import floor_deviations, least_layers, least_of

KINDS = ("sum", "sum, clip count", "osnap", "osnap, clip count", "second_moment",
         "overlapping", "overlapping, clip count")  # fmt: skip
WINDOWS = {"window": 2, "grace": 1, "max_windows": 5, "reports_per_source": 4, "max_merge": 2}


def two_layers() -> list[Vector]:
    return _tasks() + _merged() + _studies() + _refused() + _deviations()


def task(mechanism: dict[str, object], **changes: object) -> dict[str, object]:
    return definition(mechanism=mechanism, noise="both", max_clients=1000) | changes


def _judged(about: str, mechanism: dict[str, object], sigma: int, floor: int, **changes: object) -> list[Vector]:
    """The least of both is accepted, less of either is a false claim, if it is not less than any task may have."""
    result = []
    for less_noise, less_floor in ((0, 0), (1, 0), (0, 1)):
        lower = floor - less_floor
        least = least_of(int(str(mechanism.get("sparsity", 1))))
        if lower == 1 or lower < least[1] or sigma - less_noise < least[0]:
            continue
        whole = task(mechanism | {"sigma": sigma - less_noise} | ({"floor": lower} if lower else {}), **changes)
        given: dict[str, object] = {"text": canonical(whole)}
        if less_noise or less_floor:
            what = "client" if less_noise else "server"
            result.append(bad(f"{about}: a step too little of a {what}", "check_task", "false_claim", **given))
        else:
            result.append(good(f"{about}: {sigma} and {floor}", "check_task", b64(task_id(whole)), **given))
    return result


def _tasks() -> list[Vector]:
    result = []
    for name in KINDS:
        for said, clients, corrupt, alone, null in (
            ("200 clients", 200, 10, 3, False),
            ("20 clients, the null row", 20, 1, 3, True),
            ("40 clients, no more alone than together", 40, 0, 1, False),
            ("4 clients, whose own noise is enough", 4, 0, 9, False),
        ):
            sigma, floor = least_layers(MECHANISMS[name], 1.0, alone, 1e-6, clients, corrupt, null=null)
            promised = claim(min_clients=clients, max_corrupt_clients=corrupt, epsilon_alone=str(alone),
                             neighbours="zero-out" if null else "replace-one")  # fmt: skip
            result += _judged(f"{name}, two layers, {said}", MECHANISMS[name], sigma, floor, claim=promised)
    return result


def _merged() -> list[Vector]:
    """Where windows are merged a source's own noise does not hide its reports, also where rows overlap."""
    result = []
    for about, name in (("a sum", "sum"), ("overlapping", "overlapping"),
                        ("overlapping, clip count", "overlapping, clip count")):  # fmt: skip
        promised = claim(min_clients=40, epsilon_alone="3")
        sigma, floor = least_layers(MECHANISMS[name], 1.0, 3.0, 1e-6, 40, 0, merged=True)
        changes: dict[str, object] = {"batches": "windowed", "windows": WINDOWS, "claim": promised}
        result += _judged(f"{about}, two layers, merged windows", MECHANISMS[name], sigma, floor, **changes)
    return result


def _studies() -> list[Vector]:
    """Pilot and main task share what may be seen alone, too: a fifth of mu^2 for the pilot here."""
    promised, whole = {"delta": "0.000001", "delta_coalition": "0", "share": "0.2"}, 1 - 1e-11
    result = []
    for about, part, after in (("pilot", 0.2, {}), ("main task", 0.8, {"pilot": "A" * 43})):
        # mu of a part is given as the epsilon that has it, and the claim is far above.
        sigma, floor = least_layers(
            MECHANISMS["sum"], 0, 0, 1e-6, 200, 10, parts=(gaussian_mu(1.0, 1e-6) * (part * whole) ** 0.5,
                                                           gaussian_mu(3.0, 1e-6) * (part * whole) ** 0.5),
        )  # fmt: skip
        study = promised | {"epsilon": "1", "epsilon_alone": "3"} | after
        wide = claim(min_clients=200, max_corrupt_clients=10, epsilon="2", epsilon_alone="6")
        result += _judged(f"{about} of a study, two layers", MECHANISMS["sum"], sigma, floor, claim=wide, study=study)
    return result


def _refused() -> list[Vector]:
    promised = claim(min_clients=40, epsilon_alone="3")
    enough = MECHANISMS["sum"] | {"sigma": 1000, "floor": 1000}
    study = {"epsilon": "1", "delta": "0.000001", "delta_coalition": "0", "share": "0.1"}
    cases: list[tuple[str, str, dict[str, object]]] = [
        ("nothing promised alone", "invalid_task", task(enough, claim=claim(min_clients=40))),
        ("a promise alone of clients' noise", "invalid_task",
         definition(mechanism=MECHANISMS["sum"] | {"sigma": 1000}, claim=promised)),
        ("a promise alone below that of all", "invalid_message",
         task(enough, claim=promised | {"epsilon_alone": "0.9"})),
        ("a floor under clients' noise", "invalid_task", definition(mechanism=enough)),
        ("a floor of 1", "invalid_task", task(enough | {"floor": 1}, claim=promised)),
        ("a floor of 2 in merged windows", "invalid_task",
         task(enough | {"floor": 2}, claim=promised, batches="windowed", windows=WINDOWS)),
        ("a floor of 0 that is spelled out", "invalid_message", task(enough | {"floor": 0}, claim=promised)),
        ("rows that overlap behind too low a floor", "invalid_task",
         task(MECHANISMS["overlapping"] | {"sigma": 1000, "floor": 2}, claim=promised)),
        ("a study", "unsupported_feature", task(enough, claim=promised, study=study)),
        ("a study that promises less alone than together", "invalid_message",
         task(enough, claim=promised, study=study | {"epsilon_alone": "0.9"})),
        ("a study's promise alone of clients' noise", "invalid_task",
         definition(mechanism=MECHANISMS["sum"] | {"sigma": 1000}, claim=claim(min_clients=40, epsilon="0.1"),
                    study=study | {"epsilon_alone": "3"})),
        ("Wishart noise", "unsupported_feature",
         task(MECHANISMS["second_moment_wishart"], claim=claim(min_clients=300, epsilon_alone="3"))),
    ]  # fmt: skip
    accepted = _judged("verified, two layers", MECHANISMS["sum"], 1000, 1000, claim=promised, **PROVEN)[:1]
    return accepted + [
        bad(f"two layers and {name}", "check_task", token, text=canonical(each)) for name, token, each in cases
    ]


def _deviations() -> list[Vector]:
    cases = [(100, 50, [100, 142]), (4, 2, [4, 6, 0]), (3, 7, [3, 5, 29]), (2**29 - 1, 2**29 - 1, [2**29 - 1, 17])]
    return [
        good(f"a floor of {floor} beside {sigma}", "floor_deviations", floor_deviations(sigma, floor, words),
             sigma=sigma, floor=floor, words=words)
        for sigma, floor, words in cases
    ]  # fmt: skip
