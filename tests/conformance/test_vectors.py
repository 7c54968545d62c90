"""Replays the vectors of the reference implementation, operation by operation, against the package."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from lintra_protocol.cohort import merkle as manifest
from lintra_protocol.cohort.differences import ListDifference, piece_hash, pieces_of
from lintra_protocol.cohort.report_ids import ReportIds, decode_positions, encode_positions, intersection
from lintra_protocol.cohort.report_ids import difference as difference_of
from lintra_protocol.crypto import sharing, signing, tokens
from lintra_protocol.crypto.randomness import RandomBytes, derive_seed, keystream
from lintra_protocol.crypto.ring import IntArray, RingArray, from_ring, ring_bytes, ring_from_bytes, to_ring
from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.encoding import canonical
from lintra_protocol.encoding.canonical import base64url, canonical_json, parse_base64url
from lintra_protocol.errors import LintraError, OutdatedKeyError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.http import problems
from lintra_protocol.http import requests as transport
from lintra_protocol.mechanisms import AnyMechanism, RonGauss, SecondMoment, public_signs, range_finder
from lintra_protocol.mechanisms import joint_rows as joint
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.floor import Floor
from lintra_protocol.mechanisms.layout import Products
from lintra_protocol.messages import documents as messages
from lintra_protocol.messages import inclusion as proofs
from lintra_protocol.messages.documents import Census, Cohort, Inventory, Signed
from lintra_protocol.noise.clipping import clip_exactly, quantise, quantise_dithered, quantise_entries
from lintra_protocol.noise.discrete_laplace import laplace_shares
from lintra_protocol.privacy.calibration import published_steps
from lintra_protocol.privacy.statement import Claim, Neighbours
from lintra_protocol.report import report, wire
from lintra_protocol.report import upload as blocks
from lintra_protocol.rules import release as rules
from lintra_protocol.task import Task
from lintra_protocol.transforms.orthonormal import frame_digest, orthonormal
from lintra_protocol.transforms.osnap import BalancedOsnap
from support import device_operations, stream_operations, verified_operations
from support.measured import (
    document_of,
    measurement_of,
    noise_sigmas,
    reports_without_noise,
    setting_of,
    with_contributors,
    words_of_steps,
)

FOLDER = Path(__file__).resolve().parents[1] / "vectors"
FILES = sorted(FOLDER.glob("*.json"))
VECTORS = [(file.stem, vector) for file in FILES for vector in json.loads(file.read_text("ascii"))]
MESSAGE_FILES = ("messages", "agreement", "uploads", "tasks")

unhex = bytes.fromhex


def unhexed(values: list[str]) -> list[bytes]:
    return [bytes.fromhex(value) for value in values]


def hexed(values: Any) -> list[str]:
    return [value.hex() for value in values]


def ring(words: Any) -> RingArray:
    return np.array(words, dtype=object).astype(np.uint64)


def integers(values: list[str]) -> IntArray:
    return np.array([int(value) for value in values], np.int64)


def texts(array: Any) -> Any:
    return [texts(item) for item in array] if isinstance(array, np.ndarray) else str(int(array))


def task_of(text: str) -> Task:
    return Task.from_canonical(text.encode())


def mechanism_of(value: object) -> Mechanism:
    mechanism: Mechanism = TypeAdapter(AnyMechanism).validate_json(canonical_json(value))  # type: ignore[arg-type]
    return mechanism


# --- one function for each operation --------------------------------------------------------------------------


def parse_json(text: str) -> str:
    return canonical_json(canonical.parse_canonical_json(text.encode("utf-8"))).decode()


def check_task(text: str) -> str:
    task = task_of(text)
    task.check()
    assert task.canonical() == text.encode()
    return task.task_id


def normalised(task: str, row: list[str]) -> object:
    arrays = task_of(task).schema_arrays
    row_of_numbers = arrays.row(np.array([float(value) for value in row]))
    return [str(value) for value in arrays.normalise(row_of_numbers[np.newaxis])[0].tolist()]


def quantised(row: list[str], squared_bound: str) -> object:
    return texts(quantise(np.array([[float(value) for value in row]]), int(squared_bound))[0])


def clip_entries(row: list[str], bound: str) -> object:
    return texts(quantise_entries(np.array([float(value) for value in row]), int(bound)))


def published_sigma(
    epsilon: str, delta: str, clients: int, rows: int, sparsity: int, columns: int, bound: str, corrupt: int
) -> int:
    exact = Decimal(epsilon), Decimal(delta), Decimal(bound)
    return published_steps(*exact[:2], clients, rows, sparsity, columns, exact[2], corrupt)


def products(steps: list[str], intercept: str, trace: bool) -> object:
    mechanism = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept=intercept, trace=trace)
    return texts(words_of_steps(mechanism, integers(steps)[np.newaxis])[0])


def clip_count(mechanism: object, row: list[str | None], outside: bool) -> str:
    numbers = np.array([[math.nan if value is None else float(value) for value in row]])
    return str(reports_without_noise(mechanism_of(mechanism), numbers, np.array([outside]))[0, -1])


def missing_rows(mechanism: object, row: list[str | None], outside: bool) -> object:
    numbers = np.array([[math.nan if value is None else float(value) for value in row]])
    return texts(reports_without_noise(mechanism_of(mechanism), numbers, np.array([outside]))[0])


def orthonormal_frame(matrix: list[list[int]]) -> dict[str, object]:
    found = orthonormal(np.array(matrix))
    return {"columns": found.tolist(), "digest": frame_digest(found)}


def projected(features: list[str], frame: list[list[int]] | None, fraction_bits: int) -> object:
    matrix = None if frame is None else np.array(frame)
    return texts(joint.project(integers(features)[np.newaxis], matrix, fraction_bits)[0])


def joint_vector(mechanism: object, row: list[str | None]) -> object:
    encoder = mechanism_of(mechanism)
    numbers = np.array([[math.nan if value is None else float(value) for value in row]])
    return texts(words_of_steps(encoder, document_of(encoder).clip(numbers, setting_of(encoder)))[0])


def deviations_of(mechanism: object) -> dict[str, int]:
    asked = mechanism_of(mechanism)
    assert isinstance(asked, RonGauss)
    found = asdict(asked.deviations)
    return found if asked.pairs else {name: value for name, value in found.items() if name != "tables"}


def squared_mu(mechanism: object, honest: int, neighbours: Neighbours) -> list[str]:
    asked = mechanism_of(mechanism)
    assert isinstance(asked, RonGauss)
    square = asked.joint_noise.squared_mu(asked.sigma, neighbours, honest, Fraction(4))
    return [str(square.numerator), str(square.denominator)]


def words_of(u: list[str]) -> RandomBytes:
    """Return the generator of so many 32-bit words; whoever reads more has none."""
    left = b"".join(int(word).to_bytes(4, "little") for word in u)

    def read(count: int) -> bytes:
        nonlocal left
        assert count <= len(left), "more words are read than were recorded"
        taken, left = left[:count], left[count:]
        return taken

    return read


def dithered_row(row: list[str], squared_bound: str, u: list[str]) -> object:
    rows = np.array([[float(value) for value in row]])
    return texts(quantise_dithered(rows, int(squared_bound), words_of(u))[0])


def dithered_report(mechanism: object, row: list[str | None], outside: bool, u: list[str]) -> object:
    numbers = np.array([[math.nan if value is None else float(value) for value in row]])
    measurement = measurement_of(mechanism_of(mechanism), numbers.shape[1])
    return texts(measurement.exact_reports(numbers, np.array([outside]), words_of(u))[0])


def dithered_contribution(
    mechanism: object, contributors: object, rows: list[list[str | None]], persons: list[int], u: list[str]
) -> object:
    numbers = np.array([[math.nan if value is None else float(value) for value in row] for row in rows])
    measurement = measurement_of(contributed_of(mechanism, contributors), numbers.shape[1])
    return texts(measurement.exact_contribution(numbers, np.array(persons), words_of(u)))


def contributed_of(mechanism: object, contributors: object) -> Mechanism:
    return with_contributors(
        mechanism_of(mechanism), None if contributors is None else Contributors.from_value(contributors)
    )


def contribution(mechanism: object, contributors: object, rows: list[list[str | None]], persons: list[int]) -> object:
    numbers = np.array([[math.nan if value is None else float(value) for value in row] for row in rows])
    return texts(
        measurement_of(contributed_of(mechanism, contributors), numbers.shape[1]).exact_contribution(
            numbers, np.array(persons)
        )
    )


def smallest_sigma(mechanism: object, columns: int, claim: object, contributors: object = None) -> int:
    return measurement_of(
        contributed_of(mechanism, contributors), columns, Claim.model_validate(claim)
    ).smallest_sigma()


def squared_distance(mechanism: object, columns: int, neighbours: Neighbours, contributors: object = None) -> list[str]:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=2, neighbours=neighbours)
    square = measurement_of(contributed_of(mechanism, contributors), columns, claim).squared_distance
    return [str(square.numerator), str(square.denominator)]


def omega(seed: str, columns: int, rank: int) -> object:
    return public_signs.omega(unhex(seed), columns, rank).astype(int).tolist()


def floor_deviations(sigma: int, floor: int, words: list[int]) -> list[int]:
    return Floor(floor, sigma).of(np.array(words)).tolist()


def halvings(ranks: list[int]) -> list[int]:
    given = {"row_bound": "1", "fraction_bits": 0, "sigma": 4, "omega_seed": "A" * 43, "projected_bound": "1"}
    return [range_finder.RangeFinder.model_validate(given | {"rank": rank}).halvings for rank in ranks]


def range_projection(row: list[str], signs: list[list[int]], halvings: int, squared_bound: str) -> object:
    matrix = np.array(signs, float)
    return texts(public_signs.projections(integers(row)[np.newaxis], matrix, halvings, int(squared_bound))[0])


def range_products(row: list[str], factors: list[str]) -> object:
    return texts(Products(integers(row)[np.newaxis], integers(factors)[np.newaxis]).of_each_row()[0])


def make_report(task: str, row: list[str], time: int, random: str) -> dict[str, object]:
    made = report.make_report(task_of(task), integers(row), time, BytesIO(unhex(random)).read)
    return {"report_id": made.report_id.hex(), "header": made.header.hex(), "shares": hexed(made.shares)}


def open_upload(task: str, server: int, key_id: str, private_key: str, upload: str) -> list[dict[str, object]]:
    checked = task_of(task)

    def find_key(name: bytes) -> SealingKey:
        if name != unhex(key_id):
            raise OutdatedKeyError
        return SealingKey(checked.suite, unhex(private_key))

    cut = blocks.decode_upload(unhex(upload), checked, server)
    assert blocks.encode_upload(cut) == unhex(upload)
    opened = [report.open_block(checked, server, block, find_key) for block in cut]
    return [
        {"report_id": name.hex(), "time": time, "payload": required(payload).hex()}
        for block, payloads in zip(cut, opened, strict=True)
        for name, time, payload in zip(block.report_ids, block.times, payloads, strict=True)
    ]


def required(payload: bytes | LintraError) -> bytes:
    if isinstance(payload, LintraError):
        raise payload
    return payload


def listed(count: int) -> ReportIds:
    """The identifiers that the vectors name by their number: SHA-256 of a text each."""
    return ReportIds.of(sha256(f"report {index}".encode()).digest() for index in range(count))


def prove(count: int, position: int) -> dict[str, object]:
    proof = manifest.prove_inclusion(listed(count).array, position)
    return {"leaf": proof.leaf, "leaf_ids": proof.leaf_ids.hex(), "siblings": hexed(proof.siblings)}


def verify_inclusion(root: str, count: int, id: str, leaf: int, leaf_ids: str, siblings: list[str]) -> None:  # noqa: A002
    proof = manifest.InclusionProof(leaf, unhex(leaf_ids), tuple(unhexed(siblings)))
    manifest.verify_inclusion(unhex(root), count, unhex(id), proof)


def prove_absence(count: int, id: str) -> list[dict[str, object]]:  # noqa: A002
    ids = listed(count)
    return [
        {"leaf": proof.leaf, "leaf_ids": proof.leaf_ids.hex(), "siblings": hexed(proof.siblings)}
        for proof in ids.prove(unhex(id), ids.tree)
    ]


def verify_absence(root: str, count: int, id: str, leaves: list[dict[str, Any]]) -> None:  # noqa: A002
    proofs = [
        manifest.InclusionProof(leaf["leaf"], unhex(leaf["leaf_ids"]), tuple(unhexed(leaf["siblings"])))
        for leaf in leaves
    ]
    manifest.verify_absence(unhex(root), count, unhex(id), proofs)


def difference(own: list[str], other: list[str]) -> dict[str, object]:
    found = messages.Difference.between(0, ReportIds.of(unhexed(own)), ReportIds.of(unhexed(other)))
    extra = parse_base64url(found.extra)
    return {"missing": parse_base64url(found.missing).hex(), "extra": hexed(ReportIds.parse(extra, len(extra)))}


def pieces(own: list[str], other: list[str]) -> list[object]:
    found = difference_of(ReportIds.of(unhexed(own)), ReportIds.of(unhexed(other)))
    missing_bytes, sent = pieces_of(ListDifference(0, *found))
    return [missing_bytes, [piece_hash(piece) for piece in sent]]


def rebuild(own: list[str], missing: str, extra: list[str]) -> list[str]:
    packed = base64url(unhex(missing)), base64url(b"".join(unhexed(extra)))
    return hexed(messages.Difference(server=0, missing=packed[0], extra=packed[1]).rebuild(ReportIds.of(unhexed(own))))


def positions(data: str) -> list[int]:
    found = decode_positions(unhex(data))
    assert encode_positions(found) == unhex(data)
    return [int(position) for position in found]


def matrix(rows: int, clients: int, sparsity: int, seed: str) -> object:
    row_numbers, signs = BalancedOsnap(rows, clients, unhex(seed), sparsity).entries(np.arange(clients))
    return np.concatenate([row_numbers, signs], axis=1).tolist()


def columns(rows: int, clients: int, sparsity: int, seed: str, ranks: list[int]) -> object:
    row_numbers, signs = BalancedOsnap(rows, clients, unhex(seed), sparsity).entries(np.array(ranks))
    return np.concatenate([row_numbers, signs], axis=1).tolist()


def sketch(mechanism: object, shares: list[list[str]], seed: str) -> Any:
    public = mechanism_of(mechanism).public_matrix(len(shares), unhex(seed))
    words = (len(shares[0]) - public.totals) // public.copies
    result = np.zeros((public.rows, words + public.totals), np.uint64)
    public.add_reports(result, np.arange(len(shares)), ring(shares))
    return texts(result)


def decode(mechanism: object, sketch: list[list[str]], columns: int) -> object:
    return measurement_of(mechanism_of(mechanism), columns).decode(from_ring(ring(sketch))).tolist()


def parse_message(kind: str, text: str) -> object:
    return (
        getattr(proofs if hasattr(proofs, kind) else messages, kind).from_canonical(text.encode()).canonical().decode()
    )


def decode_sealed_document(data: str) -> list[str]:
    document, sealed = wire.decode_sealed_document(unhex(data))
    assert wire.encode_sealed_document(document, sealed) == unhex(data)
    return [document.hex(), sealed.hex()]


def signed_inventories(values: object) -> list[Signed[Inventory]]:
    return [Signed[Inventory].from_value(value) for value in values]  # type: ignore[attr-defined]


def verify_inventories(task: str, inventories: object, batch: int = 0) -> list[int]:
    found = rules.verify_inventories(task_of(task), batch, signed_inventories(inventories))
    return [message.count for message in found]


def verify_cohorts(task: str, inventories: object, cohorts: list[object], batch: int = 0) -> str:
    signed = [Signed[Cohort].from_value(value) for value in cohorts]
    return rules.verify_cohorts(task_of(task), batch, signed, signed_inventories(inventories)).root


def a_single_task() -> Task:
    return next(task_of(vector["input"]["text"]) for file, vector in VECTORS if file == "tasks" and "output" in vector)


def window_epsilons(task: str) -> list[str]:
    # The lattice's slack and the roundings upwards are below what these digits show.
    checked = task_of(task)
    return [f"{statement.epsilon:.9f}" for statement in (checked.worst_privacy(), checked.worst_together())]


def sign_request(private_key: str, method: str, url: str, body: str, now: int, nonce: str) -> dict[str, str]:
    return transport.sign_request(signing.SigningKey(unhex(private_key)), method, url, unhex(body), now, unhex(nonce))


def verify_request(public_key: str, method: str, url: str, body: str, headers: dict[str, str], now: int) -> str:
    signed = transport.verify_request(public_key, method, url, headers, now)
    signed.require_body(unhex(body))
    return signed.nonce.hex()


def problem(token: str, detail: str, instance: str) -> dict[str, object]:
    (error,) = [error for error in problems.all_errors() if error.token == token]
    document = problems.to_problem(error(detail), instance=instance)
    # Titles are for people and may be reworded.
    return {name: value for name, value in document.items() if name != "title"}


OPERATIONS: dict[str, Callable[..., Any]] = {
    **verified_operations.OPERATIONS,
    **device_operations.OPERATIONS,
    **stream_operations.OPERATIONS,
    "framed": lambda label, parts: canonical.framed(label, *unhexed(parts)).hex(),
    "hash": lambda label, parts: canonical.domain_hash(label, *unhexed(parts)).hex(),
    "keystream": lambda seed, count: keystream(unhex(seed))(count).hex(),
    "derive": lambda seed, label, parts: derive_seed(unhex(seed), label, *unhexed(parts)).hex(),
    "nonce_commitment": lambda nonce: messages.nonce_commitment(a_single_task(), 0, unhex(nonce)).hex(),
    "window_nonce_commitment": lambda task, batch, nonce, first=None: messages.nonce_commitment(
        task_of(task), batch, unhex(nonce), first
    ).hex(),
    "batch_of": lambda task, time: task_of(task).batch_of(time),
    "span": lambda task, batch: list(task_of(task).span(batch)),
    "window_epsilons": window_epsilons,
    "token_keys": lambda secret, identities: hexed(tokens.derived_keys(unhex(secret), identities)),
    "token_key_hashes": lambda secret, identities: [
        tokens.key_commitment(key) for key in tokens.derived_keys(unhex(secret), identities)
    ],
    "token": lambda secret, identities, task_id, serial: tokens.make_token(
        tokens.derived_keys(unhex(secret), identities), unhex(task_id), lambda count: unhex(serial)
    ).spelled(),
    "check_pass": lambda key, task_id, presented: (
        tokens.Admission(unhex(key), unhex(task_id)).require(unhex(presented)).hex()
    ),
    "verify_census": lambda task, census, counted, inventory, held: rules.verify_census(
        task_of(task),
        Signed[Census].from_value(census),
        ReportIds.of(unhexed(counted)),
        Signed[Inventory].from_value(inventory),
        ReportIds.of(unhexed(held)),
    ),
    "receipt_hash": lambda ids: messages.receipt_hash(unhexed(ids)),
    "parse_json": parse_json,
    "parse_base64url": lambda text, length=None: parse_base64url(text, length).hex(),
    "check_task": check_task,
    "normalised": normalised,
    "quantise": quantised,
    "clip_entries": clip_entries,
    "published_sigma": published_sigma,
    "products": products,
    "clip_count": clip_count,
    "missing_rows": missing_rows,
    "orthonormal": orthonormal_frame,
    "project": projected,
    "clip_exactly": lambda vector, bound: texts(clip_exactly(integers(vector)[np.newaxis], int(bound))[0]),
    "joint_vector": joint_vector,
    "deviations": deviations_of,
    "squared_mu": squared_mu,
    "sigmas": lambda mechanism, columns: texts(noise_sigmas(mechanism_of(mechanism), columns)),
    "squared_distance": squared_distance,
    "omega": omega,
    "halvings": halvings,
    "floor_deviations": floor_deviations,
    "range_projection": range_projection,
    "range_products": range_products,
    "contribution": contribution,
    "dither": dithered_row,
    "dithered_report": dithered_report,
    "dithered_contribution": dithered_contribution,
    "smallest_sigma": smallest_sigma,
    "to_ring": lambda value: texts(to_ring(integers([value])))[0],
    "ring_bytes": lambda words: ring_bytes(ring(words)).hex(),
    "laplace_shares": lambda scale, shares, random: texts(
        laplace_shares((len(random) // 32,), scale, shares, BytesIO(unhex(random)).read)
    ),
    "split": lambda secret, servers, random: texts(sharing.split(ring(secret), servers, BytesIO(unhex(random)).read)),
    "combine": lambda shares: texts(sharing.combine(ring(shares))),
    "expand_share": lambda seed, words: texts(sharing.expand_share(unhex(seed), words)),
    "expand_spread": lambda payload, server, servers, words: texts(
        sharing.expand_spread(unhex(payload), server, servers, words)
    ),
    "make_report": make_report,
    "header": lambda task_id, time, commitments: wire.encode_header(unhex(task_id), time, unhexed(commitments)).hex(),
    "block_context": lambda task_id, server, key_id, headers: wire.block_context(
        unhex(task_id), server, unhex(key_id), unhexed(headers)
    ).hex(),
    "open_upload": open_upload,
    "merkle_root": lambda count: listed(count).root.hex(),
    "prove": prove,
    "verify_inclusion": verify_inclusion,
    "prove_absence": prove_absence,
    "verify_absence": verify_absence,
    "difference": difference,
    "pieces": pieces,
    "rebuild": rebuild,
    "positions": positions,
    "intersection": lambda lists: hexed(intersection([ReportIds.of(unhexed(ids)) for ids in lists])),
    "sorted_ids": lambda ids: hexed(ReportIds.of(unhexed(ids))),
    "parse_ids": lambda data, maximum: hexed(ReportIds.parse(unhex(data), maximum)),
    "late_seed": lambda task, root, nonces, attempt, batch=0, first=None: rules.late_seed(
        task_of(task), batch, unhex(root), unhexed(nonces), attempt, first
    ).hex(),
    "aggregate_context": lambda task, server, root, seed, batch=0, first=None: rules.aggregate_context(
        task_of(task), batch, server, unhex(root), unhex(seed), first
    ).hex(),
    "matrix": matrix,
    "columns": columns,
    "sketch": sketch,
    "decode": decode,
    "parse_message": parse_message,
    "decode_sealed_document": decode_sealed_document,
    "verify_inventories": verify_inventories,
    "verify_cohorts": verify_cohorts,
    "verify_list": lambda inventory, ids: rules.verify_list(
        Inventory.from_value(inventory), ReportIds.parse(b"".join(unhexed(ids)), 99)
    ),
    "public_key": lambda private_key: signing.SigningKey(unhex(private_key)).public_key,
    "sign": lambda private_key, label, parts: signing.SigningKey(unhex(private_key)).sign(label, *unhexed(parts)),
    "verify": lambda public_key, signature, label, parts: signing.verify(public_key, signature, label, *unhexed(parts)),
    "sign_request": sign_request,
    "verify_request": verify_request,
    "open": lambda suite, private_key, info, sealed: (
        SealingKey(suite, unhex(private_key)).open(unhex(sealed), unhex(info)).hex()
    ),
    "problem": problem,
}


def complaint(vector: dict[str, Any]) -> str:
    """Return what the package does otherwise than a vector says; empty if nothing."""
    try:
        found = OPERATIONS[vector["operation"]](**vector["input"])
    except LintraError as error:
        told = vector.get("error")
        return "" if error.token == told else f"{vector['name']}: refused by {error.token} ({error}), not by {told}"
    if "error" in vector:
        return f"{vector['name']}: not refused by {vector['error']}"
    return "" if found == vector["output"] else f"{vector['name']}: {found!r:.500} instead of {vector['output']!r:.500}"


@pytest.mark.parametrize(("file", "operation"), sorted({(file, vector["operation"]) for file, vector in VECTORS}))
def test_the_package_does_what_the_reference_implementation_says(file: str, operation: str) -> None:
    complaints = [complaint(each) for name, each in VECTORS if (name, each["operation"]) == (file, operation)]
    assert not any(complaints), "\n".join(filter(None, complaints))


def test_every_operation_has_vectors() -> None:
    assert {vector["operation"] for _, vector in VECTORS} == set(OPERATIONS)


def test_at_least_half_of_the_message_vectors_are_corrupted() -> None:
    kinds = ["error" in vector for file, vector in VECTORS if file in MESSAGE_FILES]
    assert 2 * sum(kinds) >= len(kinds) > 100


def test_names_are_unique_within_a_file() -> None:
    names = [(file, vector["name"], vector["operation"]) for file, vector in VECTORS]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_writing_the_vectors_again_gives_the_committed_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(FOLDER / "reference.py"), str(tmp_path)], check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        file.name: file.read_bytes() for file in FILES
    }


def test_the_reference_implementation_shares_no_code_with_the_package() -> None:
    assert not [
        path.name
        for path in FOLDER.glob("*.py")
        if "import lintra" in path.read_text() or "from lintra" in path.read_text()
    ]


def test_what_a_vector_holds_survives_the_round_trip_to_bytes() -> None:
    words = ring_from_bytes(bytes(range(16)))
    assert texts(words) == [
        str(int.from_bytes(bytes(range(8)), "little")),
        str(int.from_bytes(bytes(range(8, 16)), "little")),
    ]
