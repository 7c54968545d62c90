"""Vectors of the control plane: tasks, lists, the release, messages, signatures and problem documents."""

from base64 import urlsafe_b64decode
from functools import partial
from pathlib import Path

import given
import plain
from cases_centred import centred_sketches
from cases_histogram import histogram_sketches
from cases_joint import joint_sketches
from cases_kinds import of_kinds
from cases_matrix import matrices
from cases_range import range_sketches
from given import MECHANISMS, Vector, bad, claim, definition, good, hexes, identifiers, seed, task_id, text_rows
from plain import b64, canonical, framed

# --- tasks ----------------------------------------------------------------------------------------------------


def _wrong_admissions() -> list[tuple[str, str, dict[str, object]]]:
    return [
        ("tokens without keys", "invalid_task", {"client_auth": "token"}),
        ("keys without tokens", "invalid_task", {"token_keys": [b64(seed("key"))] * 3}),
        ("a short token key", "invalid_task",
         {"client_auth": "token", "token_keys": [b64(seed("key"))] * 2 + ["AAAA"]}),
        ("few reports may be missing where many clients may be corrupt", "invalid_task",
         {"client_auth": "token", "token_keys": [b64(seed("key"))] * 3, "claim": claim(max_corrupt_clients=1)}),
    ]  # fmt: skip


def tasks() -> list[Vector]:
    result = []
    for kind in MECHANISMS:
        for servers, form in ((2, "seeded"), (3, "uniform")):
            task = definition(kind, servers, share_form=form)
            result.append(good(f"{kind}, {servers} servers", "check_task", b64(task_id(task)), text=canonical(task)))
    result += [
        bad(name, "check_task", token, text=canonical(definition() | change)) for name, token, change in refused()
    ]
    partial = {name: value for name, value in definition().items() if name != "extensions"}
    result.append(bad("a default left out", "check_task", "invalid_message", text=canonical(partial)))
    result.append(bad("a space", "check_task", "invalid_message", text=canonical(definition()) + " "))
    return result + _published_tasks() + _counting_tasks() + _studies()


def _studies() -> list[Vector]:
    """A pilot and its main task: accepted with the noise of their parts of mu^2, refused with a step less."""
    whole: dict[str, object] = {"epsilon": "1", "delta": "0.000001", "delta_coalition": "0", "share": "0.1"}
    result = []
    for name, study, part in (("pilot", whole, 0.1), ("main task", whole | {"pilot": b64(seed("pilot"))}, 0.9)):
        sigma = plain.study_sigma(MECHANISMS["sum"], 1.0, 1e-6, part, 4)
        task = definition(mechanism=MECHANISMS["sum"] | {"sigma": sigma}, study=study)
        result.append(good(f"the {name} of a study", "check_task", b64(task_id(task)), text=canonical(task)))
        weak = task | {"mechanism": MECHANISMS["sum"] | {"sigma": sigma - 1}}
        refused: list[tuple[str, str, dict[str, object]]] = [
            ("a step of noise too little", "false_claim", weak),
            ("a coalition beyond its part", "false_claim", {"claim": claim(delta_coalition="0.0000001")}),
            ("a share of everything", "invalid_message", {"study": study | {"share": "1"}}),
            ("a share of nothing", "invalid_message", {"study": study | {"share": "0"}}),
            ("no epsilon", "invalid_message", {"study": study | {"epsilon": "0"}}),
            ("a field too many", "invalid_message", {"study": study | {"after": ""}}),
            ("a pilot that is spelled out as none", "invalid_message", {"study": study | {"pilot": None}}),
            ("a pilot that is no identifier", "invalid_message", {"study": study | {"pilot": "AAAA"}}),
            ("a pilot with stray bits", "invalid_task", {"study": study | {"pilot": "A" * 42 + "B"}}),
            ("no study, which is spelled out", "invalid_message", {"study": None}),
        ]
        result += [
            bad(f"the {name} of a study with {fault}", "check_task", token, text=canonical(task | change))
            for fault, token, change in refused
        ]
    return result


def _counting_tasks() -> list[Vector]:
    """A sketch that counts clipped rows: accepted with the noise that pays for the count, refused with a step less."""
    result = []
    adaptive: dict[str, object] = {"min_clients": 40, "max_corrupt_clients": 2, "threat": "adaptive"}
    for name, promised, corrupt in (
        ("osnap, clip count", claim(), 0), ("overlapping, clip count", claim(), 0),
        ("osnap, clip count", claim(**adaptive), 2), ("osnap, clip count", claim(neighbours="zero-out"), 0),
    ):  # fmt: skip
        clients = int(str(promised["min_clients"]))
        sigma = plain.counting_sigma(MECHANISMS[name], 1.0, 1e-6, clients, corrupt, corrupt)
        said = f"{name}, {clients} clients, {corrupt} corrupt, {promised['neighbours']}"
        for less in (0, 1):
            mechanism = MECHANISMS[name] | {"sigma": sigma - less}
            task = definition(mechanism=mechanism, claim=promised)
            if less and promised["neighbours"] == "replace-one":
                result.append(bad(f"{said}: a step too little", "check_task", "false_claim", text=canonical(task)))
            else:
                result.append(good(f"{said}: noise {sigma - less}", "check_task", b64(task_id(task)),
                                   text=canonical(task)))  # fmt: skip
    return result


def refused() -> list[tuple[str, str, dict[str, object]]]:
    sketch, second, overlapping = (MECHANISMS[name] for name in ("osnap", "second_moment", "overlapping"))
    wishart = MECHANISMS["second_moment_wishart"]
    many: dict[str, object] = {"claim": claim(min_clients=300), "max_clients": 1000}
    return [
        ("a promise that the noise does not keep", "false_claim", {"mechanism": MECHANISMS["sum"] | {"sigma": 50}}),
        ("as many corrupt clients as a row has", "row_underfilled",
         {"mechanism": sketch, "claim": claim(max_corrupt_clients=2)}),
        ("more rows than clients", "row_underfilled", {"mechanism": sketch | {"rows": 5}}),
        ("two entries in a column without a plan", "invalid_task", {"mechanism": sketch | {"sparsity": 2}}),
        ("a plan for one entry in a column", "invalid_task", {"mechanism": sketch | {"leverage": "0.5"}}),
        ("a leverage above one", "invalid_task", {"mechanism": overlapping | {"leverage": "1.5"}}),
        ("more entries in a column than rows", "invalid_task", {"mechanism": overlapping | {"sparsity": 3}}),
        ("too little noise for rows that overlap", "invalid_task", {"mechanism": overlapping | {"sigma": 7}}),
        ("too little noise for the leverage", "false_claim", {"mechanism": overlapping | {"leverage": "0.6"}}),
        ("windows that are not described", "invalid_message", {"batches": "windowed"}),
        ("certificates of clients", "unsupported_feature", {"client_auth": "mtls"}),
        *_wrong_admissions(),
        ("an extension", "unsupported_feature", {"extensions": ["more"]}),
        ("a grid that is too fine", "invalid_task", {"mechanism": second | {"fraction_bits": 40}}),
        ("sums that leave the ring", "invalid_task", {"mechanism": second | {"fraction_bits": 29}}),
        ("an intercept below zero", "invalid_task", {"mechanism": second | {"intercept": "-1"}}),
        ("an intercept below one step", "invalid_task", {"mechanism": second | {"intercept": "0.06"}}),
        ("too little noise for the intercept", "false_claim", {"mechanism": second | {"intercept": "0.5"}}),
        ("too few clients for Wishart noise", "row_underfilled", {"mechanism": MECHANISMS["second_moment_wishart"]}),
        ("too little Wishart noise", "false_claim", {"mechanism": wishart | {"sigma": 40_000_000}} | many),
        ("an example on too coarse a grid", "invalid_task",
         {"mechanism": wishart | {"sigma": 4000, "fraction_bits": 6}} | many),
        ("a trace against the null row", "invalid_task",
         {"mechanism": second | {"trace": True}, "claim": claim(neighbours="zero-out")}),
        ("rows counted without an intercept", "invalid_task", {"mechanism": second | {"count": "noisy"}}),
        ("an exact count that is spelled out", "invalid_message", {"mechanism": second | {"count": "exact"}}),
        ("rows counted in a sketch", "invalid_message", {"mechanism": sketch | {"count": "noisy"}}),
        ("a bound below zero", "invalid_task", {"mechanism": MECHANISMS["sum"] | {"row_bound": "-1"}}),
        ("a short salt", "invalid_task", {"salt": "AAAA"}),
        ("a sealing key of another suite", "invalid_task", {"suite": "mlkem768-x25519"}),
        ("another version", "invalid_message", {"version": "lintra/2"}),
        ("an unknown field", "invalid_message", {"note": ""}),
        ("one server", "invalid_message", {"servers": definition(servers=1)["servers"]}),
        ("an identity twice", "invalid_message", {"servers": [definition()["servers"][0]] * 2}),  # type: ignore[index]
        ("no column", "invalid_message", {"columns": []}), *given.wrong_code_books(),
        ("a column twice", "invalid_message", {"columns": [definition()["columns"][0]] * 2}),  # type: ignore[index]
        ("an unknown mechanism", "invalid_message", {"mechanism": {"kind": "magic"}}),
        ("a number instead of a real", "invalid_message", {"claim": claim(epsilon=1)}),
        ("a real with a trailing zero", "invalid_message", {"claim": claim(epsilon="1.0")}),
        ("a real with an exponent", "invalid_message", {"claim": claim(delta="1e-6")}),
        ("no privacy at all", "invalid_message", {"claim": claim(epsilon="0")}),
        ("everybody corrupt", "invalid_message", {"claim": claim(max_corrupt_clients=4)}),
        ("a window that ends before it begins", "invalid_message", {"not_after": 10}),
        ("a minimum above the maximum", "invalid_message", {"max_clients": 3}),
        ("a text where a list belongs", "invalid_message", {"extensions": ""}),
    ]  # fmt: skip


def _published_tasks() -> list[Vector]:
    """The published calibration: accepted with its exact epsilon only, and with its own sigma only."""
    published = MECHANISMS["published"]
    alone = {
        "mechanism": published | {"rows": 1, "sparsity": 1, "row_bound": "0.5", "sigma": 358},
        "columns": definition()["columns"][:1],
        "claim": claim(min_clients=120),
        "max_clients": 1000,
    }  # type: ignore[index]
    enough = {"claim": claim(min_clients=300), "max_clients": 1000}
    refused: list[tuple[str, str, dict[str, object]]] = [
        ("the published noise where it does not keep its promise", "false_claim", alone),
        ("less than the published noise", "false_claim", {"mechanism": published | {"sigma": 1865}} | enough),
        ("more than the published noise", "false_claim", {"mechanism": published | {"sigma": 1867}} | enough),
        ("the logarithm of a negative number", "row_underfilled", {"mechanism": published}),
        ("a norm that does not follow from the bound of an entry", "invalid_task",
         {"mechanism": published | {"row_bound": "0.8"}} | enough),
        ("a published epsilon left open", "invalid_task",
         {"mechanism": published | {"published_epsilon": "0"}} | enough),
        ("a box without a lattice point but 0", "invalid_task",
         {"mechanism": published | {"fraction_bits": 0}} | enough),
    ]  # fmt: skip
    accepted = definition() | alone | {"claim": claim(min_clients=120, epsilon="1.12")}
    return [
        good("the published noise with its exact epsilon", "check_task", b64(task_id(accepted)),
             text=canonical(accepted)),
        *(bad(name, "check_task", token, text=canonical(definition() | change)) for name, token, change in refused),
    ]  # fmt: skip


# --- the release ----------------------------------------------------------------------------------------------


def release() -> list[Vector]:
    task = definition()
    root, nonces = plain.merkle_root(identifiers(5)), [seed(f"nonce {index}") for index in range(3)]
    late, again = (plain.late_seed(task_id(task), 0, root, nonces, attempt) for attempt in (0, 1))
    drawn: dict[str, object] = {"task": canonical(task), "root": root.hex(), "nonces": hexes(nonces)}
    result = [
        good("the late seed", "late_seed", late.hex(), attempt=0, **drawn),
        good("the late seed after a matrix that failed", "late_seed", again.hex(), attempt=1, **drawn),
        good("an aggregate's context", "aggregate_context",
             framed("aggregate", task_id(task), b"\0\2", root, late).hex(),
             task=canonical(task), server=2, root=root.hex(), seed=late.hex()),
    ]  # fmt: skip
    result += matrices()
    for name in MECHANISMS:
        result += _sketches(name, 2)
    result += joint_sketches() + centred_sketches() + histogram_sketches() + range_sketches()
    return result + of_kinds(result)


def _sketches(name: str, columns: int) -> list[Vector]:
    """One cohort of five under one mechanism: its sketch mod 2^64, and what the analyzer reads from it."""
    kind, sparsity = str(MECHANISMS[name]["kind"]), int(str(MECHANISMS[name].get("sparsity", 1)))
    rows, copies = int(str(MECHANISMS[name].get("rows", 1))), sparsity if kind == "osnap_published" else 1
    options = "options" in name
    words = (6 if options else 3) if kind.startswith("second_moment") else columns
    clips, counts = int("clip count" in name), int("row count" in name)
    sent, words = copies * words + clips + counts, words + clips + counts
    stream = plain.bytes_words(plain.keystream(seed(kind), 8 * 5 * sent))
    shares = [stream[start : start + sent] for start in range(0, len(stream), sent)]
    matrix = plain.balanced_matrix(2, 5, seed("matrix"), sparsity) if rows > 1 else [[(0, 1)]] * 5
    sums = plain.sketch(rows, matrix, shares, copies, clips if "sparsity" in MECHANISMS[name] else 0)
    given: dict[str, object] = {"mechanism": MECHANISMS[name]}
    small = [[word % 2**40 - 2**39 for word in row] for row in sums]
    bits = int(str(MECHANISMS[name]["fraction_bits"]))
    # The clip counter stands behind all that is decoded.
    own = [plain.to_words(row[: words - clips]) for row in small]
    decoded = plain.decode(kind, own, bits, columns, sparsity, options, bool(counts))
    return [
        good(f"{name}: a sketch", "sketch", text_rows(sums), shares=text_rows(shares), seed=seed("matrix").hex(),
             **given),
        good(f"{name}: decoding", "decode", decoded, sketch=text_rows([plain.to_words(row) for row in small]),
             columns=columns, **given),
    ]  # fmt: skip


# --- messages -------------------------------------------------------------------------------------------------


def inventory(task: dict[str, object], server: int, ids: list[bytes]) -> dict[str, object]:
    return {
        "kind": "inventory", "task_id": b64(task_id(task)), "batch": 0, "server": server, "count": len(ids),
        "root": b64(plain.merkle_root(ids)), "nonce_commitment": b64(plain.H("nonce", seed(f"nonce {server}"))),
        "closed_at": 15, "start": 3,
    }  # fmt: skip


def census(task: dict[str, object], server: int, ids: list[bytes]) -> dict[str, object]:
    return {
        "kind": "census", "task_id": b64(task_id(task)), "batch": 0, "server": server, "count": len(ids),
        "root": b64(plain.merkle_root(ids)), "counted_at": 11, "start": 3,
    }  # fmt: skip


def cohort(
    task: dict[str, object], server: int, ids: list[bytes], inventories: list[dict[str, object]]
) -> dict[str, object]:
    digest = plain.H("inventories", *(canonical(message).encode() for message in inventories))
    return {
        "kind": "cohort", "task_id": b64(task_id(task)), "batch": 0, "server": server, "count": len(ids),
        "root": b64(plain.merkle_root(ids)), "inventories": b64(digest), "nonce": b64(seed(f"nonce {server}")),
        "start": 3,
    }  # fmt: skip


def signed(message: dict[str, object], signer: str) -> dict[str, object]:
    signature = plain.sign(seed(signer), str(message["kind"]), canonical(message).encode())
    return {"message": message, "signature": b64(signature)}


def examples() -> dict[str, dict[str, object]]:
    """Return one message of every kind."""
    task, ids, digest = definition(), identifiers(4), b64(seed("digest"))
    name = b64(task_id(task))
    inventories = [inventory(task, server, ids) for server in range(3)]
    key = {"key_id": b64(bytes(8)), "suite": "x25519", "public_key": digest, "valid_from": 0, "valid_until": 2**40}
    receipt = {"kind": "receipt", "task_id": name, "server": 0, "count": 4, "reports": digest}
    failure = {"report_id": digest, "type": "batch_closed", "detail": "", "retryable": False}
    difference = {"server": 1, "missing": b64(plain.positions([2])), "extra": ""}
    about = partial(dict, task_id=name, batch=0, server=1)
    return {
        "KeyList": {"kind": "keys", "identity_key": digest, "keys": [key]},
        "TaskRecord": {"kind": "task", "definition": task},
        "Registration": {
            "kind": "registration", "record": signed({"kind": "task", "definition": task}, "author"),
            "key_id": b64(bytes(8)), "token_key": digest,
        },
        "Census": census(task, 0, ids),
        "Receipt": receipt,
        "Inventory": inventories[0],
        "Cohort": cohort(task, 0, ids, inventories),
        "CheckShare": about(kind="check_share", cohort_root=digest, count=4, check_seed=digest, words=2, body=digest),
        "Verdict": about(kind="verdict", count=3, root=digest, rejected=1, checks=digest, nonce=digest),
        "SketchShareRecord": {
            "kind": "sketch_share", "task_id": name, "batch": 0, "server": 2, "cohort_root": digest, "num_clients": 4,
            "seed": digest, "rows": 1, "words": 2, "sealed": digest,
        },
        "CohortRequest": {
            "inventories": [signed(message, f"server {server}") for server, message in enumerate(inventories)],
            "differences": [difference],
        },
        "Inclusion": {
            "kind": "inclusion", "root": digest, "count": 65, "leaf": 1, "leaf_ids": digest, "siblings": [digest],
        },
        "Absence": {
            "kind": "absence", "root": digest, "count": 65,
            "leaves": [{"leaf": 0, "leaf_ids": digest, "siblings": [digest]}],
        },
        "AggregateRequest": {"cohorts": [signed(cohort(task, 0, ids, inventories), "server 0")]},
        "UploadAnswer": {"failures": [failure], "receipt": signed(receipt, "server 0")},
        "Counters": {"received": 9, "accepted": 6, "repeated": 1, "refused": {"batch_closed": 2}},
        "BatchStatus": {"batch": 0, "state": "open", "count": 4, "enough": True},
        "DifferenceInPieces": {"server": 1, "missing_bytes": 3, "pieces": [digest, b64(seed("another piece"))]},
    }  # fmt: skip


def messages() -> list[Vector]:
    result = []
    for kind, message in examples().items():
        text = canonical(message)
        result.append(good(f"{kind}", "parse_message", text, kind=kind, text=text))
        first = min(message)
        refused: dict[str, str] = {
            "an unknown field": canonical(message | {"zzz": 1}),
            "a field left out": canonical({name: value for name, value in message.items() if name != first}),
            "null in a field": canonical(message | {first: None}),
            "a list of itself": canonical([message]),
            "half of it": text[: len(text) // 2],
            "a field twice": text[:-1] + f',"{first}":{canonical(message[first])}' + "}",
            "a space after a colon": text.replace(":", ": ", 1),
        }
        result += [
            bad(f"{kind}, {name}", "parse_message", "invalid_message", kind=kind, text=t) for name, t in refused.items()
        ]
    changes: list[tuple[str, str, dict[str, object]]] = [
        ("a count below zero", "Inventory", {"count": -1}), ("a count beyond 2^53", "Inventory", {"count": 2**53}),
        ("a server beyond 255", "Inventory", {"server": 256}), ("a text for a number", "Inventory", {"count": "4"}),
        ("a truth for a number", "Inventory", {"count": True}), ("another kind", "Inventory", {"kind": "cohort"}),
        ("a padded root", "Inventory", {"root": "AA=="}), ("an empty root", "Inventory", {"root": ""}),
        ("a number for a root", "Cohort", {"root": 7}), ("an unknown state", "BatchStatus", {"state": "lost"}),
        ("a list for a mapping", "Counters", {"refused": []}), ("an object for a list", "KeyList", {"keys": {}}),
        ("a piece with half a name", "DifferenceInPieces", {"pieces": ["AAAA"]}),
        ("a piece that is a path", "DifferenceInPieces", {"pieces": ["../" + 40 * "A"]}),
        ("differences of both kinds", "CohortRequest",
         {"differences": [examples()["DifferenceInPieces"] | {"missing": "", "extra": ""}]}),
        ("an unknown suite", "KeyList",
         {"keys": [{"key_id": "AA", "suite": "rot13", "public_key": "AA", "valid_from": 0, "valid_until": 1}]}),
    ]  # fmt: skip
    for name, kind, change in changes:
        text = canonical(examples()[kind] | change)
        result.append(bad(f"{kind}, {name}", "parse_message", "invalid_message", kind=kind, text=text))
    text = canonical(examples()["CohortRequest"] | {"differences": [examples()["DifferenceInPieces"]]})
    result.append(good("CohortRequest, in pieces", "parse_message", text, kind="CohortRequest", text=text))
    text = canonical(examples()["Inventory"] | {"witnessed": True})
    result.append(good("Inventory, of a server with a witness", "parse_message", text, kind="Inventory", text=text))
    joined = (5).to_bytes(4, "big") + b"12345" + b"sealed"
    result.append(
        good("a sealed document", "decode_sealed_document", [b"12345".hex(), b"sealed".hex()], data=joined.hex())
    )
    broken = {"empty": b"", "no length": b"\0\0\0", "truncated": joined[:8], "a huge length": b"\xff" * 12}
    for name, data in broken.items():
        result.append(bad(f"a sealed document, {name}", "decode_sealed_document", "invalid_message", data=data.hex()))
    return result


# --- agreement ------------------------------------------------------------------------------------------------


def agreement() -> list[Vector]:
    """Inventories and cohorts of three servers, right and wrong."""
    task, ids = definition(), identifiers(4)
    plain_inventories = [inventory(task, server, ids) for server in range(3)]
    inventories = [signed(message, f"server {server}") for server, message in enumerate(plain_inventories)]
    cohorts = [signed(cohort(task, server, ids, plain_inventories), f"server {server}") for server in range(3)]
    base: dict[str, object] = {"task": canonical(task)}
    result = [good("inventories", "verify_inventories", [4, 4, 4], inventories=inventories, **base)]
    for name, token, changed in _wrong_inventories(task, inventories, plain_inventories):
        result.append(bad(f"inventories, {name}", "verify_inventories", token, inventories=changed, **base))
    base["inventories"] = inventories
    result.append(good("cohorts", "verify_cohorts", b64(plain.merkle_root(ids)), cohorts=cohorts, **base))
    for name, token, changed in _wrong_cohorts(task, cohorts, plain_inventories):
        result.append(bad(f"cohorts, {name}", "verify_cohorts", token, cohorts=changed, **base))
    held: dict[str, object] = {"inventory": plain_inventories[0]}
    result.append(good("a list", "verify_list", None, ids=hexes(ids), **held))
    for name, listed in {"one less": ids[1:], "another": sorted([*ids[1:], seed("x")]), "none": []}.items():
        result.append(bad(f"a list, {name}", "verify_list", "inventory_mismatch", ids=hexes(listed), **held))
    return result + _censuses(task, ids)


def _censuses(task: dict[str, object], ids: list[bytes]) -> list[Vector]:
    """Return what a census proves: a server's inventory holds all that it counted before."""
    held = signed(inventory(task, 0, ids), "server 0")
    common: dict[str, object] = {"task": canonical(task), "inventory": held, "held": hexes(ids)}

    def case(name: str, token: str | None, counted: list[bytes], lost: int = 0, **change: object) -> Vector:
        own = signed(census(task, 0, counted) | change, str(change.pop("signer", "server 0")))
        fields = {"census": own, "counted": hexes(counted), **common}
        if token is None:
            return good(name, "verify_census", lost, **fields)
        return bad(name, "verify_census", token, **fields)

    gone = signed(census(task, 0, ids), "stranger")
    return [
        case("a census of the same reports", None, ids),
        case("a census of some of them", None, ids[1:]),
        case("a census before any report", None, []),
        case("a census with a report that is gone", "inventory_mismatch", sorted([*ids, seed("gone")])),
        case("a report that is gone since an earlier start", None, sorted([*ids, seed("gone")]), lost=1, start=2),
        case("a report that is gone though the start number fell", None, sorted([*ids, seed("gone")]), lost=1, start=4),
        case("a census of an earlier start with all its reports", None, ids[1:], start=2),
        case("a census of another server", "inventory_mismatch", ids, server=1),
        case("a census of another task", "inventory_mismatch", ids, task_id=b64(seed("task"))),
        case("a census with another count", "inventory_mismatch", ids, count=3),
        case("a census with another root", "inventory_mismatch", ids, root=b64(seed("root"))),
        bad("a census by a stranger", "verify_census", "unauthorized", census=gone, counted=hexes(ids), **common),
    ]


Signed = list[dict[str, object]]


def _wrong_inventories(task: dict[str, object], right: Signed, messages: Signed) -> list[tuple[str, str, Signed]]:
    def changed(**change: object) -> Signed:
        return [signed(messages[0] | change, "server 0"), *right[1:]]

    return [
        ("one missing", "invalid_message", right[:2]),
        ("one too many", "invalid_message", [*right, right[0]]),
        ("in another order", "unauthorized", [right[1], right[0], right[2]]),
        ("signed by another", "unauthorized", [signed(messages[0], "analyzer"), *right[1:]]),
        ("changed after signing", "unauthorized", [right[0] | {"message": messages[0] | {"count": 5}}, *right[1:]]),
        ("with a short signature", "invalid_message", [right[0] | {"signature": "AAAA"}, *right[1:]]),
        ("of another task", "inventory_mismatch", changed(task_id=b64(bytes(32)))),
        ("of another batch", "inventory_mismatch", changed(batch=1)),
        ("of another server", "inventory_mismatch", changed(server=1)),
    ]


def _wrong_cohorts(task: dict[str, object], right: Signed, inventories: Signed) -> list[tuple[str, str, Signed]]:
    message = cohort(task, 2, identifiers(4), inventories)

    def changed(**change: object) -> Signed:
        return [*right[:2], signed(message | change, "server 2")]

    return [
        ("one missing", "invalid_message", right[:2]),
        ("in another order", "unauthorized", right[::-1]),
        ("signed by another", "unauthorized", [*right[:2], signed(message, "server 0")]),
        ("changed after signing", "unauthorized", [*right[:2], right[2] | {"message": message | {"count": 5}}]),
        ("with another root", "cohort_conflict", changed(root=b64(seed("root")))),
        ("with another count", "cohort_conflict", changed(count=3)),
        ("of another task", "cohort_conflict", changed(task_id=b64(bytes(32)))),
        ("of another batch", "cohort_conflict", changed(batch=1)),
        ("of another server", "cohort_conflict", changed(server=1)),
        ("from other inventories", "cohort_conflict", changed(inventories=b64(seed("inventories")))),
        ("with another nonce", "nonce_mismatch", changed(nonce=b64(seed("nonce 0")))),
        ("with a short nonce", "nonce_mismatch", changed(nonce="AAAA")),
        ("with a broken nonce", "invalid_message", changed(nonce="A")),
    ]


# --- signatures and seals -------------------------------------------------------------------------------------


def signatures() -> list[Vector]:
    private, public = seed("server 0"), b64(plain.ed25519_public(seed("server 0")))
    signature = b64(plain.sign(private, "test", b"part"))
    right: dict[str, object] = {"public_key": public, "signature": signature, "label": "test", "parts": [b"part".hex()]}
    result = [
        good("a key", "public_key", public, private_key=private.hex()),
        good("signing", "sign", signature, private_key=private.hex(), label="test", parts=[b"part".hex()]),
        good("a signature", "verify", None, **right),
    ]
    wrong: list[tuple[str, str, dict[str, object]]] = [
        ("under another label", "unauthorized", {"label": "other"}),
        ("of other parts", "unauthorized", {"parts": [b"part".hex(), ""]}),
        ("by another key", "unauthorized", {"public_key": b64(plain.ed25519_public(seed("server 1")))}),
        ("of zeros", "unauthorized", {"signature": b64(bytes(64))}),
        ("that is too short", "invalid_message", {"signature": b64(bytes(63))}),
        ("that is padded", "invalid_message", {"signature": signature + "=="}),
        ("by half a key", "invalid_message", {"public_key": b64(bytes(16))}),
    ]
    result += [bad(f"a signature {name}", "verify", token, **(right | change)) for name, token, change in wrong]
    return result + _requests()


def _requests() -> list[Vector]:
    method, url, body, now, nonce = (
        "PUT",
        "https://a.example/v1/tasks/x/batches/0/cohort",
        b"{}",
        1_700_000_000,
        bytes(16),
    )
    headers = plain.signed_request(seed("analyzer"), method, url, body, now, nonce)
    described, signature = headers["signature-input"], headers["signature"]

    def replaced(old: str, new: str) -> dict[str, object]:
        assert old in described
        return {"headers": headers | {"signature-input": described.replace(old, new)}}

    asked: dict[str, object] = {"method": method, "url": url, "body": body.hex(), "now": now}
    sent = asked | {"public_key": b64(plain.ed25519_public(seed("analyzer"))), "headers": headers}
    missing = {f"no {name} header": {"headers": {k: v for k, v in headers.items() if k != name}} for name in headers}
    changes: list[tuple[str, str, dict[str, object]]] = [
        ("another method", "unauthorized", {"method": "GET"}),
        ("another path", "unauthorized", {"url": "https://a.example/v1/keys"}),
        ("another server", "unauthorized", {"url": url.replace("a.example", "b.example")}),
        ("a query added", "unauthorized", {"url": url + "?x=1"}),
        ("another body", "unauthorized", {"body": "00"}),
        ("another digest", "unauthorized", {"headers": headers | {"content-digest": plain.content_digest(b"")}}),
        ("too late", "unauthorized", {"now": now + 301}), ("too early", "unauthorized", {"now": now - 301}),
        ("another time", "unauthorized", replaced(f"created={now}", f"created={now + 1}")),
        ("a time in words", "unauthorized", replaced(f"created={now}", 'created="today"')),
        ("another nonce", "unauthorized", replaced(b64(nonce), b64(seed("x")[:16]))),
        ("another key's name", "unauthorized", replaced(b64(plain.ed25519_public(seed("analyzer"))), "somebody")),
        ("another tag", "unauthorized", replaced("lintra/1", "lintra/2")),
        ("without its body", "unauthorized", replaced(' "content-digest"', "")),
        ("an unknown parameter", "unauthorized", replaced(";nonce", ";expires=9;nonce")),
        ("a parameter twice", "invalid_message", replaced(f"created={now}", f"created={now};created={now}")),
        ("a component twice", "invalid_message", replaced('("@method"', '("@method" "@method"')),
        ("a space too many", "invalid_message", replaced('" "@target', '"  "@target')),
        ("two signatures", "invalid_message", replaced('"lintra/1"', '"lintra/1", more=("@method")')),
        ("a label that differs", "invalid_message", replaced("lintra=(", "other=(")),
        ("a broken signature", "invalid_message", {"headers": headers | {"signature": "lintra=:%:"}}),
        ("no padding", "invalid_message", {"headers": headers | {"signature": signature.replace("=:", ":")}}),
        ("half a signature", "unauthorized", {"headers": headers | {"signature": "lintra=:" + signature[8:48] + ":"}}),
        *((name, "unauthorized", change) for name, change in missing.items()),
    ]  # fmt: skip
    private = seed("analyzer").hex()
    return [
        good("signing a request", "sign_request", headers, private_key=private, nonce=nonce.hex(), **asked),
        good("a request", "verify_request", nonce.hex(), **sent),
        good("a request at the window's end", "verify_request", nonce.hex(), **(sent | {"now": now + 300})),
        *(bad(f"a request, {name}", "verify_request", token, **(sent | change)) for name, token, change in changes),
    ]


def sealing() -> list[Vector]:
    """Known answers: sealed bytes that must open, and what becomes of them when something changes."""
    private, info = seed("sealing"), framed("share", b"client")
    sealed = plain.hpke_seal(plain.x25519_public(private), seed("ephemeral"), info, b"known answer")
    fixed = (Path(__file__).parent / "hybrid_sealed.txt").read_text("ascii").replace("\n", "")
    hybrid = urlsafe_b64decode(fixed + "=" * (-len(fixed) % 4))
    both = bytes(range(96))
    opened = plain.hpke_open_hybrid(both, info, hybrid)
    result = []
    for suite, key, data, text in (
        ("x25519", private, sealed, b"known answer"),
        ("mlkem768-x25519", both, hybrid, opened),
    ):
        right: dict[str, object] = {"suite": suite, "private_key": key.hex(), "info": info.hex(), "sealed": data.hex()}
        result.append(good(f"{suite} opens", "open", text.hex(), **right))
        other = bytes([key[0] ^ 1]) + key[1:-1] + bytes([key[-1] ^ 1])
        wrong: dict[str, dict[str, object]] = {
            "in another context": {"info": framed("share", b"server").hex()}, "without context": {"info": ""},
            "with another key": {"private_key": other.hex()}, "truncated": {"sealed": data[:-1].hex()},
            "with a byte more": {"sealed": data.hex() + "00"}, "empty": {"sealed": ""},
            "with the last bit flipped": {"sealed": (data[:-1] + bytes([data[-1] ^ 1])).hex()},
            "with the first bit flipped": {"sealed": (bytes([data[0] ^ 1]) + data[1:]).hex()},
        }  # fmt: skip
        result += [
            bad(f"{suite} {name}", "open", "decrypt_failed", **(right | change)) for name, change in wrong.items()
        ]
    return result


# --- problem documents ----------------------------------------------------------------------------------------

STATUSES = {
    400: "refused invalid_message invalid_task unsupported_feature false_claim invalid_row invalid_table "
    "decrypt_failed commitment_mismatch invalid_analysis",
    401: "unauthorized",
    403: "forbidden policy_refused ledger_refused token_invalid token_spent",
    404: "not_found unrecognized_task batch_unknown",
    405: "method_not_allowed",
    409: "task_conflict task_not_started task_ended outdated_key report_too_early report_too_late batch_open "
    "batch_closed inventory_mismatch cohort_conflict cohort_too_small row_underfilled too_many_missing nonce_mismatch "
    "seed_mismatch already_released checks_mismatch too_many_rejected",
    410: "abandoned",
    413: "message_too_large",
    415: "unsupported_media_type",
    429: "overloaded",
    431: "head_too_large",
    500: "internal",
    502: "invalid_release",
    503: "unavailable",
}
RETRYABLE = {
    "internal", "unavailable", "overloaded", "task_not_started", "outdated_key", "report_too_early", "batch_open",
    "cohort_too_small",
}  # fmt: skip


def problems() -> list[Vector]:
    result = []
    for status, tokens in STATUSES.items():
        for token in tokens.split():
            document = {
                "type": f"urn:lintra:problem:{token}", "status": status, "detail": "12 of 50",
                "retryable": token in RETRYABLE, "instance": "abc",
            }  # fmt: skip
            result.append(good(token, "problem", document, token=token, detail="12 of 50", instance="abc"))
    return result
