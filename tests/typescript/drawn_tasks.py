"""Random tasks of the kinds that devices take part in, valid or not; a row for each, and what Python makes of it."""

import random
import re
from collections.abc import Iterator
from typing import Any

from lintra_client.ledger.prices import price_of
from lintra_client.sending.sealed_reports import were_clipped
from lintra_client.task_check import ClientPolicy
from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.encoding.canonical import base64url, canonical_json
from lintra_protocol.encoding.documents import fraction, real
from lintra_protocol.errors import LintraError, PolicyRefusedError
from lintra_protocol.report.report import make_report
from lintra_protocol.task import Task
from support.seeds import identity, sealing_key

UNITS = 1000
_KEYS = {suite: base64url(sealing_key("analyzer", suite).public_bytes) for suite in ("x25519", "mlkem768-x25519")}  # type: ignore[arg-type]
_IDENTITIES = [identity(f"server {number}").public_key for number in range(5)]


def draw(seed: int) -> dict[str, Any]:
    """Return a definition, a row and 32 bytes, from a seed alone.

    Searches for epsilon take most of the time, so half of the cases ask for none: their delta is null.
    """
    rng = random.Random(seed)
    kind = rng.choice(["sum", "second_moment", "histogram", "osnap"])
    columns = [_column(rng, number, kind) for number in range(rng.choice([1, 2, 3, 5, 9]))]
    noise = rng.choice(["clients", "clients", "both", "both", "servers"])
    by_servers = kind != "histogram" and noise == "servers"
    clients = rng.choice([2, 8, 40, 1000, 100_000])
    windows = rng.random() < 0.2
    merged = rng.choice([1, 1, 2]) if windows else 1
    corrupt = rng.choice([0, 0, 1, clients // 4])
    tokens = rng.random() < 0.3
    servers = rng.choice([2, 3, 5])
    task: dict[str, Any] = {
        "version": "lintra/1", "salt": base64url(rng.randbytes(32)),
        "purpose": rng.choice(["a test", "Größe \u00a0 \U0001fae8"]),
        "author_key": identity("author").public_key,
        "servers": [{"url": f"https://{j}.test", "identity_key": _IDENTITIES[j]} for j in range(servers)],
        "columns": columns, "mechanism": _mechanism(rng, kind, columns, noise),
        "claim": {
            "epsilon": rng.choice(["0.5", "1", "3.7", "20"]), "delta": rng.choice(["0.000001", "0.0001", "0.01"]),
            "neighbours": rng.choice(["replace-one", "replace-one", "zero-out"]), "min_clients": clients,
            "max_corrupt_clients": corrupt * merged if corrupt * merged < clients else 0,
            "threat": rng.choice(["static", "adaptive"]),
            "delta_coalition": "0" if by_servers else rng.choice(["0", "0", "0.0000001"]),
        },
        "max_clients": rng.choice([clients, 2 * clients, 1_000_000]), "max_missing": rng.choice(["0.5", "0.25", "0.9"]),
        "batches": "windowed" if windows else "single", "time_precision": rng.choice([60, 3600]),
        "not_before": 10, "not_after": 10 + (12 if windows else rng.randint(1, UNITS)),
        "share_form": rng.choice(["uniform", "seeded", "seeded", "spread"]), "suite": rng.choice(sorted(_KEYS)),
        "client_auth": "token" if tokens else "none",
        "token_keys": [base64url(rng.randbytes(32)) for _ in range(servers)] if tokens else [],
        "retention": 0, "extensions": [],
    }  # fmt: skip
    task["analyzer"] = {"identity_key": identity("analyzer").public_key, "sealing_key": _KEYS[task["suite"]]}
    if windows:
        task["windows"] = {"window": 3, "grace": 1, "max_windows": 4, "reports_per_source": rng.randint(1, 4)}
        task["windows"] |= {"max_merge": merged} if merged > 1 else {}
    if by_servers:
        task["noise"] = "servers"
    if noise == "both":
        task["noise"] = "both"
        times = rng.choice([1, 1.5, 3, 3, 10])
        task["claim"]["epsilon_alone"] = real(float(task["claim"]["epsilon"]) * times)
    if rng.random() < 0.4:
        task |= {"verification": "norm", "max_rejected": "0.1"}
        task["share_form"] = rng.choice(["seeded", task["share_form"]])
    task["mechanism"]["sigma"] = _sigma(rng, task)
    if noise == "both" and (floor := _floor(rng, task)):
        task["mechanism"]["floor"] = floor
    if rng.random() < 0.06:
        _spoil(rng, task)
    return {
        "task": task,
        "row": {column["name"]: _value(rng, column) for column in columns},
        "seed": rng.randbytes(32).hex(),
        "delta": (delta := rng.choice([None, None, 1e-6, 0.001])),
        "policy": delta and rng.choice(POLICIES),
    }


def _column(rng: random.Random, number: int, kind: str) -> dict[str, Any]:
    plain = kind == "histogram"
    column: dict[str, Any] = {
        "name": f"c{number}",
        "lower": "-1",
        "upper": "1",
        "center": "0",
        "scale": "1",
        "unit": "",
    }
    drawn = rng.random()
    if drawn < 0.15:
        return column | {"kind": "boolean", "lower": "0"}
    if drawn < 0.3:
        levels = [f"L{level}" for level in range(rng.randint(2, 5))] + ["(other)"] * (rng.random() < 0.3)
        book = {"code_book": _level_book(rng, levels)} if rng.random() < 0.4 else {}
        return column | book | {"kind": "category", "levels": levels, "lower": "0", "upper": str(len(levels) - 1)}
    if rng.random() < 0.15:
        column["code_book"] = {
            "missing": rng.choice([["-9", "k. A."], ["7.0", "1e2"]] if rng.random() < 0.9 else [["9", "9"]])
        }
        if rng.random() < 0.3:
            column |= {"unit": rng.choice(["kg"] * 9 + ["lb", ""])}
            column["code_book"]["units"] = [{"unit": "lb", "factor": rng.choice(["0.4536"] * 9 + ["-1"])}]
    if drawn < 0.45:
        return (
            column
            | {"kind": "integer", "lower": "-20", "upper": "130"}
            | ({} if plain else {"center": "55.5", "scale": "75.5"})
        )
    if plain:
        return column
    return column | {
        "lower": "-3.25",
        "upper": "17.5",
        "center": rng.choice(["0", "7.125"]),
        "scale": rng.choice(["1", "3", "0.1"]),
    }


# What the owner of a device may accept, in the words of the client in TypeScript.
POLICIES: list[dict[str, Any]] = [
    {}, {"maxEpsilon": 2}, {"maxEpsilon": 30, "maxEpsilonAlone": 3, "maxDelta": 0.5, "trustEnrolment": True},
    {"requireVerified": True, "trustEnrolment": True, "delta": 0.00001},
]  # fmt: skip

SPELLINGS = [
    "l0",
    "Stra\u00dfe",
    "STRASSE",
    "\u0131",
    "I",
    " Zu\u0308rich ",
    "z\u00fcrich",
    "\u2460",
    "1",
    "\u03a3\u03c2",
    "\u13a0",
]


def _level_book(rng: random.Random, levels: list[str]) -> dict[str, Any]:
    """A code book of levels; a few of these give one name to two of them, or a code to none."""
    alike = rng.random() < 0.1
    some = rng.sample(SPELLINGS if alike else SPELLINGS[1::2], 4)
    entries: list[dict[str, Any]] = [{"level": levels[0], "label": some[0], "synonyms": some[1:2]}]
    if rng.random() < 0.7:
        entries.append({"level": levels[1], "synonyms": some[2:]})
    codes = rng.choice([["?"], ["?", "99"], ["?", "L1" if alike else "L9"]])
    return {"levels": entries} | ({"missing": codes} if rng.random() < 0.4 else {})


def _mechanism(rng: random.Random, kind: str, columns: list[dict[str, Any]], noise: str) -> dict[str, Any]:
    common: dict[str, Any] = {
        "kind": kind,
        "row_bound": rng.choice(["1", "0.7", "2.5"]),
        "fraction_bits": rng.choice([4, 8, 10, 12]),
    }
    if kind == "histogram":
        edges = [
            [] if "levels" in one or one.get("kind") == "boolean" else [one["lower"], "-0.25", "0.3", one["upper"]]
            for one in columns
        ]
        levels = [len(one.get("levels", ())) or 2 * (one.get("kind") == "boolean") for one in columns]
        return {
            "kind": kind,
            "row_bound": "1",
            "fraction_bits": 0,
            "edges": edges,
            "levels": levels,
            "indicator": rng.choice([64, 4096]),
        }
    if rng.random() < 0.4:
        common["clip_count_weight"] = rng.choice(["0.2", "0.5", "1"])
    counts = {"count": "noisy"} if rng.random() < 0.3 else {}
    if rng.random() < 0.4:
        common["rounding"] = "dithered"
    if kind == "sum":
        return common | counts
    if kind == "second_moment":
        weights = _row_weights(rng, len(columns)) if rng.random() < 0.4 else {}
        intercept = rng.choice(["0.5", "0.25", "1.7"] + ["0"] * (not counts and not weights))
        return common | counts | weights | {"intercept": intercept, "trace": rng.random() < 0.3}
    sparsity = rng.choice([1, 1, 2]) if noise != "both" or rng.random() < 0.1 else 1
    leverage = rng.choice(["0.25", "0.05"]) if sparsity > 1 and noise != "servers" else "0"
    return common | {"rows": sparsity * rng.choice([1, 2, 8]), "sparsity": sparsity, "leverage": leverage}


def _row_weights(rng: random.Random, columns: int) -> dict[str, Any]:
    """Return the fields of row weights; one in eight does not fit."""
    target = {"target": rng.randrange(columns)} if rng.random() < 0.97 else {"target": 40}
    by_features = {"row_weights": "features", "target_bound": rng.choice(["0.5", "2", "7.25"])} | target
    by_all: dict[str, Any] = {"row_weights": "all"} | (target if rng.random() < 0.7 else {})
    if "target" in by_all and rng.random() < 0.7:
        by_all["target_factor"] = rng.choice(["0.3", "1.5"])
    chosen = rng.choice([by_features, by_all]) | ({"rounding": "dithered"} if rng.random() < 0.97 else {})
    return chosen | (rng.choice([{"target_bound": "3"}, {"target_factor": "2"}]) if rng.random() < 0.06 else {})


def _floor(rng: random.Random, task: dict[str, Any]) -> int:
    """About what is needed alone, mostly more; sometimes none, and sometimes what integers do not allow."""
    alone = _moved(task["mechanism"]) * 6 / float(task["claim"]["epsilon_alone"])
    return rng.choice([0, 0, rng.randint(1, 4), *(min(2**29 - 1, int(alone * part)) for part in (0.3, 1, 1, 2, 2, 4))])


def _moved(mechanism: dict[str, Any]) -> float:
    """About how far a row moves a report."""
    unit = 2 ** mechanism["fraction_bits"] * float(mechanism["row_bound"])
    kinds = {"second_moment": 3 * unit**2, "histogram": mechanism.get("indicator", 0) * 4}
    return float(kinds.get(mechanism["kind"], 2 * unit))


def _sigma(rng: random.Random, task: dict[str, Any]) -> int:
    """About what such a task needs, mostly more: what is too little has to be refused by both."""
    mechanism, claim = task["mechanism"], task["claim"]
    moved = _moved(mechanism)
    honest = (
        1
        if task.get("noise") == "servers"
        else max(1, claim["min_clients"] // mechanism.get("rows", 1) - claim["max_corrupt_clients"])
    )
    return min(
        2**29 - 1, max(4, int(moved * 6 / float(claim["epsilon"]) / honest**0.5 * rng.choice([0.3, 1, 2, 2, 4, 4])))
    )


def _spoil(rng: random.Random, task: dict[str, Any]) -> None:
    """Make one thing wrong."""
    change: tuple[str, Any] = rng.choice([
        ("purpose", "a\u202eb"), ("purpose", ""), ("max_clients", 1), ("extensions", ["x"]), ("share_form", "none"),
        ("not_after", 5), ("retention", -1), ("suite", "x448"), ("salt", "AAAA"), ("author_key", "A" * 43),
        ("max_missing", "1"), ("max_missing", "0.10"), ("token_keys", ["A" * 43]), ("client_auth", "mtls"), ("more", 1),
        ("columns", task["columns"] * 2), ("max_rejected", "1"), ("batches", "windowed"), ("version", "lintra/2"),
    ])  # fmt: skip
    task[change[0]] = change[1]


def _value(rng: random.Random, column: dict[str, Any]) -> object:
    drawn = rng.random()
    if drawn < 0.1:
        return None
    if "code_book" in column and drawn < 0.5:
        book = column["code_book"]
        numbers = [value for value in (-9, 7, 9, 100) if "levels" not in column]
        return rng.choice([*SPELLINGS, "?"] if "levels" in book else [*numbers, "k. A.", "?"][: len(numbers) or 2])
    if "levels" in column:
        return "elsewhere" if drawn < 0.2 and "(other)" in column["levels"] else rng.choice(column["levels"])
    if column.get("kind") == "boolean":
        return rng.choice([True, False, 0, 1])
    if column.get("kind") == "integer":
        return rng.randint(-30, 140)
    return rng.gauss(0, 1) * rng.choice([0.1, 1, 10])


def answers(cases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what Python makes of each case: a report, what a user is told, and epsilon; or the token of a refusal."""
    for case in cases:
        try:
            yield _answer(case)
        except LintraError as error:
            yield {"token": error.token}


def _answer(case: dict[str, Any]) -> dict[str, Any]:
    task = Task.from_canonical(canonical_json(case["task"]))
    task.check()
    random_bytes = keystream(bytes.fromhex(case["seed"]))
    row = task.schema_arrays.row(case["row"])
    rows = row.reshape(1, -1)
    normalised, outside = task.schema_arrays.normalise(rows), task.schema_arrays.outside(rows)
    noised = task.encode_normalised(normalised, outside, random_bytes)
    report = make_report(task, noised[0], task.not_before, random_bytes)
    missing = (rows != rows).any(axis=1)
    together, delta = task.worst_together(), case["delta"]
    alone = delta and task.bound_alone()
    return {
        "report_id": report.report_id.hex(),
        "shares": [share.hex() for share in report.shares],
        "clipped": bool(were_clipped(task, normalised, outside, missing)[0]),
        "incomplete": bool(missing[0]),
        "epsilon": delta and together.epsilon_at(delta),
        "alone": alone and alone.epsilon_at(delta),
        "price": delta and {name: float(fraction(part)) for name, part in _whole_price(task).items()},
        "refused": delta and _is_refused(task, case["policy"]),
    }


def _is_refused(task: Task, policy: dict[str, Any]) -> bool:
    named = {re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name): limit for name, limit in policy.items()}
    try:
        ClientPolicy(**named).require(task)
    except PolicyRefusedError:
        return True
    return False


def _whole_price(task: Task) -> dict[str, str]:
    price = price_of(task)
    return {name: getattr(price, name) for name in type(price).model_fields}
