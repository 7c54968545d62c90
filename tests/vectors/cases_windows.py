"""Vectors of tasks with windows: which window a time belongs to, what each is bound to, and what k of them promise."""

import cases_control
import plain
import plain_windows
from given import Vector, bad, claim, definition, good, hexes, identifiers, seed, task_id
from plain import b64, canonical

WINDOWS: dict[str, object] = {"window": 3, "grace": 1, "max_windows": 4, "reports_per_source": 2}


def windowed(kind: str = "sum", **changes: object) -> dict[str, object]:
    """Four windows of three units from 10 on."""
    return definition(kind) | {"batches": "windowed", "windows": WINDOWS, "not_after": 22} | changes


def windows() -> list[Vector]:
    task = windowed()
    result = [
        good(f"the window of time {time}", "batch_of", plain.window_of(task, time), task=canonical(task), time=time)
        for time in (10, 12, 13, 18, 19, 21)
    ]
    result += [
        good(f"window {number}", "span", plain.span(task, number), task=canonical(task), batch=number)
        for number in (0, 3)
    ]
    return result + _contexts(task) + _agreement(task) + _together() + _merged() + _merged_agreement()


def _contexts(task: dict[str, object]) -> list[Vector]:
    """What binds a release to its window: the nonce's commitment, the late seed, and the sealed sketch share."""
    root, nonces = plain.merkle_root(identifiers(5)), [seed(f"nonce {index}") for index in range(3)]
    result, name = [], task_id(task)
    for number in (0, 1, 3):
        committed = plain.nonce_commitment(name, number, nonces[0])
        late = plain.late_seed(name, number, root, nonces, 0)
        context = plain.aggregate_context(name, number, 2, root, late)
        result += [
            good(f"a nonce of window {number}", "window_nonce_commitment", committed.hex(), task=canonical(task),
                 batch=number, nonce=nonces[0].hex()),
            good(f"the late seed of window {number}", "late_seed", late.hex(), task=canonical(task), batch=number,
                 root=root.hex(), nonces=hexes(nonces), attempt=0),
            good(f"an aggregate's context in window {number}", "aggregate_context", context.hex(),
                 task=canonical(task), batch=number, server=2, root=root.hex(), seed=late.hex()),
        ]  # fmt: skip
    return result


def merging() -> dict[str, object]:
    """The same windows, of which up to three in a row may be released together; four reports, two of them corrupt."""
    return _with(max_merge=2) | {"claim": claim(max_corrupt_clients=2)}


def _merged() -> list[Vector]:
    """What binds a release to all windows that were merged into it, and what all reports of a source promise."""
    task = merging()
    root, nonces = plain.merkle_root(identifiers(5)), [seed(f"nonce {index}") for index in range(3)]
    result, name = [], task_id(task)
    for first, last in ((0, 1), (2, 3)):
        late = plain.late_seed(name, (last, first), root, nonces, 0)
        given: dict[str, object] = {"task": canonical(task), "batch": last, "first": first}
        result += [
            good(f"a nonce of windows {first} and {last}", "window_nonce_commitment",
                 plain.nonce_commitment(name, (last, first), nonces[0]).hex(), nonce=nonces[0].hex(), **given),
            good(f"the late seed of windows {first} and {last}", "late_seed", late.hex(), root=root.hex(),
                 nonces=hexes(nonces), attempt=0, **given),
            good(f"an aggregate's context in windows {first} and {last}", "aggregate_context",
                 plain.aggregate_context(name, (last, first), 2, root, late).hex(), server=2, root=root.hex(),
                 seed=late.hex(), **given),
        ]  # fmt: skip
    # Four reports less two corrupt ones carry the noise; two reports of two in one sum are worth twice two windows.
    one, together = plain_windows.window_epsilons(task["mechanism"], "0.000001", 2, 4)  # type: ignore[arg-type]
    result.append(
        good("epsilon of 2 windows that may be merged", "window_epsilons", [f"{one:.9f}", f"{together:.9f}"],
             task=canonical(task))
    )  # fmt: skip
    return result


def _merged_agreement() -> list[Vector]:
    """Servers that merged the same windows agree; one that did not, or merged too many, does not."""
    task, ids = merging(), identifiers(5)

    def inventories(first: int | None, last: int) -> list[dict[str, object]]:
        named = {} if first is None else {"first": first}
        return [cases_control.inventory(task, server, ids) | {"batch": last, **named} for server in range(3)]

    both, alone = inventories(1, 2), inventories(None, 2)
    cases: list[tuple[str, str | None, list[dict[str, object]], int]] = [
        ("inventories of windows 1 and 2", None, both, 2),
        ("one server did not merge them", "inventory_mismatch", [*both[:2], alone[2]], 2),
        ("one server merged them, and the others did not", "inventory_mismatch", [*alone[:2], both[2]], 2),
        ("inventories of windows 1 and 2 for window 1", "inventory_mismatch", both, 1),
        ("three windows are merged, where two may be", "invalid_message", inventories(0, 2), 2),
        ("a window is merged into itself", "invalid_message", inventories(2, 2), 2),
    ]
    result: list[Vector] = []
    for name, token, messages, batch in cases:
        given: dict[str, object] = {"task": canonical(task), "inventories": _signed(messages), "batch": batch}
        result.append(
            good(name, "verify_inventories", [5, 5, 5], **given)
            if token is None
            else bad(name, "verify_inventories", token, **given)
        )
    return result


def _agreement(task: dict[str, object]) -> list[Vector]:
    """The documents of window 2 agree there and are refused in window 3; so are the nonces of another window."""
    ids = identifiers(5)
    inventories = [cases_control.inventory(task, server, ids) | _of_window(task, server, 2) for server in range(3)]
    moved = [cases_control.inventory(task, server, ids) | _of_window(task, server, 3) for server in range(3)]
    borrowed = [message | {"batch": 3} for message in inventories]
    given: dict[str, object] = {"task": canonical(task), "inventories": _signed(inventories)}
    result: list[Vector] = [
        good("inventories of window 2", "verify_inventories", [5, 5, 5], batch=2, **given),
        bad("inventories of window 2 in window 3", "verify_inventories", "inventory_mismatch", batch=3, **given),
        good("cohorts of window 2", "verify_cohorts", b64(plain.merkle_root(ids)), batch=2,
             cohorts=_cohorts(task, ids, inventories, 2), **given),
        bad("cohorts of window 2 in window 3", "verify_cohorts", "cohort_conflict", batch=3,
            cohorts=_cohorts(task, ids, inventories, 2), **given),
    ]  # fmt: skip
    for name, messages, token in (
        ("nonces committed to in window 3", moved, None),
        ("nonces committed to in window 2 are revealed in window 3", borrowed, "nonce_mismatch"),
    ):
        inputs: dict[str, object] = {
            "task": canonical(task), "batch": 3, "inventories": _signed(messages),
            "cohorts": _cohorts(task, ids, messages, 3),
        }  # fmt: skip
        root = b64(plain.merkle_root(ids))
        result.append(
            good(name, "verify_cohorts", root, **inputs)
            if token is None
            else bad(name, "verify_cohorts", token, **inputs)
        )
    return result


def _of_window(task: dict[str, object], server: int, number: int) -> dict[str, object]:
    committed = plain.nonce_commitment(task_id(task), number, seed(f"nonce {server}"))
    return {"batch": number, "nonce_commitment": b64(committed)}


def _cohorts(
    task: dict[str, object], ids: list[bytes], inventories: list[dict[str, object]], number: int
) -> list[dict[str, object]]:
    frozen = [cases_control.cohort(task, server, ids, inventories) | {"batch": number} for server in range(3)]
    return _signed(frozen)


def _signed(messages: list[dict[str, object]]) -> list[dict[str, object]]:
    return [cases_control.signed(message, f"server {server}") for server, message in enumerate(messages)]


def _together() -> list[Vector]:
    """Epsilon of one window and of all that one source may send, from the definition of the profile."""
    result = []
    for windows_of_source in (1, 2, 4):
        task = windowed(windows=WINDOWS | {"reports_per_source": windows_of_source})
        one, together = plain_windows.window_epsilons(task["mechanism"], "0.000001", 4, windows_of_source)  # type: ignore[arg-type]
        result.append(
            good(f"epsilon of {windows_of_source} windows", "window_epsilons", [f"{one:.9f}", f"{together:.9f}"],
                 task=canonical(task))
        )  # fmt: skip
    return result


def tasks() -> list[Vector]:
    """Tasks with windows, good and bad."""
    task = windowed()
    bare = {name: value for name, value in task.items() if name != "windows"}
    refused: list[tuple[str, str, dict[str, object]]] = [
        ("windows of a single task", "invalid_message", task | {"batches": "single"}),
        ("windows that are not described", "invalid_message", bare),
        ("windows that end before the task", "invalid_message", task | {"not_after": 23}),
        ("windows without a length", "invalid_message", _with(window=0)),
        ("a grace below zero", "invalid_message", _with(grace=-1)),
        ("more reports of a source than windows", "invalid_message", _with(reports_per_source=5)),
        ("no report of a source", "invalid_message", _with(reports_per_source=0)),
        ("more windows merged than there are", "invalid_message", _with(max_merge=5)),
        ("no window in a release", "invalid_message", _with(max_merge=0)),
        ("a merging that goes without saying", "invalid_message", _with(max_merge=1)),
        ("merged windows whose corrupt reports are counted as clients", "invalid_task",
         _with(max_merge=2) | {"claim": claim(max_corrupt_clients=1)}),
        ("parts of delta that add up to delta", "invalid_task",
         windowed("osnap", claim=claim(max_corrupt_clients=1, delta_coalition="0.0000005", epsilon="20"))),
    ]  # fmt: skip
    return [
        good("windows", "check_task", b64(task_id(task)), text=canonical(task)),
        good("windows that may be merged", "check_task", b64(task_id(merging())), text=canonical(merging())),
        *(bad(name, "check_task", token, text=canonical(wrong)) for name, token, wrong in refused),
    ]


def _with(**changes: object) -> dict[str, object]:
    return windowed(windows=WINDOWS | changes)
