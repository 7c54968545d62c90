"""The pipeline under audit: the project's own encoder, sharing, matrices, ring and rules, many runs at a time.

Only HTTP and sealing are left out. Runs are extra words of one report, so that `PublicMatrix.add_rows` adds up all of
them in one call. `Seams` holds the functions that a planted fault may replace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lintra_audit.trials.likelihood_test import leverages
from lintra_audit.trials.organisations import Admit, Charge, Contribute, admit, charge, contribute
from lintra_audit.trials.streams import DrawWindows, stream_windows
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes, derive_seed
from lintra_protocol.crypto.ring import FloatArray, IntArray, RingArray, from_ring, to_ring
from lintra_protocol.crypto.sharing import combine, split
from lintra_protocol.errors import AlreadyReleasedError
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.rules.release import check_cohort, draw_matrix
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix

BLOCK_WORDS = 1 << 19
"""Words of noise drawn at a time: large enough to be quick, small enough for any machine."""

AT_ZERO: RandomBytes = bytes
"""Zeros in the place of a client's generator: dithering then rounds up, which is one of the draws it may make."""

FAR = 1e3
"""A length that stands for numbers outside every bound, a column's own too, which a clip counter counts."""


def encode(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode normalised rows of shape `(runs, clients, d)` as clients do; the result is `(runs, clients, w)`."""
    runs, clients, columns = rows.shape
    flat = rows.reshape(-1, columns)
    return measurement.encode(flat, random_bytes, _outside(flat)).reshape(runs, clients, -1)


def exact_reports(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes = AT_ZERO) -> IntArray:
    """Return the noiseless reports of normalised rows, `(n, d)`, shape `(n, w)`; without bytes dither rounds up."""
    return measurement.exact_reports(rows, _outside(rows), random_bytes)


def _outside(rows: FloatArray) -> NDArray[np.bool_]:
    far: NDArray[np.bool_] = np.logical_or.reduce(np.abs(rows) >= FAR / 2, axis=1)
    return far


def draw_checked(task: Task, root: bytes, nonces: Sequence[bytes], num_clients: int) -> PublicMatrix:
    """Draw the matrix of a cohort that keeps the claim (docs/reference/protocol-rules.md#rules, R8 and R9)."""
    check_cohort(task, num_clients, num_clients)
    return draw_matrix(task, BATCH, root, nonces, num_clients).matrix


def release_once(released: set[int], clients: IntArray) -> None:
    """Refuse reports that were released before, as every server's store does (docs/explanation/privacy.md#one-release).

    Clients are numbered in shape `(k,)`. Raises AlreadyReleasedError if some of them were.
    """
    again = released.intersection(clients.tolist())
    if again:
        raise AlreadyReleasedError(f"{len(again)} reports were released before")


Encode = Callable[[Measurement, FloatArray, RandomBytes], IntArray]
"""From normalised rows of shape `(runs, clients, d)` to noised reports of shape `(runs, clients, w)`."""

AddNoise = Callable[[Measurement, RingArray, RandomBytes], None]
"""Adds a server's noise to its sketch share of shape `(m, w/c)`, in place."""

Draw = Callable[[int, RandomBytes], IntArray]
"""From a number of runs to all clients' noised reports in each of them, shape `(runs, clients, w)`."""


@dataclass(frozen=True)
class Seams:
    """The functions that a fault can replace: encoding, the matrix of a cohort, and the rule that a report counts once.

    Further: the noise of an honest server, in one release and in the windows of a stream; of organisations the rules
    for a task, the contribution, and the ledger's charges.
    """

    encode: Encode = encode
    draw: Callable[[Task, bytes, Sequence[bytes], int], PublicMatrix] = draw_checked
    ledger: Callable[[set[int], IntArray], None] = release_once
    add_noise: AddNoise = Measurement.add_server_noise
    windows: DrawWindows = stream_windows
    admit: Admit = admit
    contribute: Contribute = contribute
    charge: Charge = charge


HONEST = Seams()


@dataclass(frozen=True)
class DrawnRelease:
    """One sketch: the numbers of the clients in it, shape `(k,)`, and the matrix that was drawn for them."""

    clients: IntArray
    matrix: PublicMatrix

    def totals(self, num_clients: int) -> IntArray:
        """Return what applies to words that bypass the matrix: shape `(1, m, num_clients)`, ones in row 0."""
        result = np.zeros((1, self.matrix.rows, num_clients), np.int64)
        result[0, 0, self.clients] = 1
        return result

    def dense(self, num_clients: int) -> IntArray:
        """Return what applies to each copy, over all clients: shape `(copies, m, num_clients)`, zero outside."""
        rows, signs = self.matrix.entries(np.arange(len(self.clients)))
        copy = np.arange(rows.shape[1]) % self.matrix.copies
        result = np.zeros((self.matrix.copies, self.matrix.rows, num_clients), np.int64)
        np.add.at(result, (copy[np.newaxis], rows, self.clients[:, np.newaxis]), signs)
        return result


@dataclass(frozen=True)
class Part:
    """Words of a report that the same public columns apply to."""

    columns: IntArray  #: shape `(copies, rows, clients)`
    sent: slice  #: where in a report the words stand, copy after copy
    released: slice  #: where in a row of the release they stand

    @property
    def width(self) -> int:
        """Return how many words of a release they are."""
        width: int = self.released.stop - self.released.start
        return width

    def applied(self, clients: IntArray, reports: IntArray) -> IntArray:
        """Return what these words of some clients' reports, shape `(.., clients, w)`, add to the release."""
        copies = np.split(reports[..., self.sent], len(self.columns), axis=-1)
        parts = [
            np.einsum("rc,...cw->...rw", own[:, clients], copy) for own, copy in zip(self.columns, copies, strict=True)
        ]
        result: IntArray = np.sum(parts, axis=0)
        return result


@dataclass(frozen=True)
class Scene:
    """Everything public about one audit, and the worst victim and coalition for it."""

    task: Task
    num_clients: int
    releases: tuple[DrawnRelease, ...]
    #: all releases' matrices over all clients, stacked, by the copy that they apply to; shape `(copies, rows,
    #: clients)`, one copy unless a report holds several
    columns: IntArray
    totals: IntArray  #: what applies to words that bypass the matrices, shape `(1, rows, clients)`
    victim: int  #: the honest client with the largest leverage
    corrupt: IntArray  #: the clients whose reports the adversary knows, shape `(quota,)`
    honest: IntArray  #: the others, victim included

    @property
    def matrix(self) -> IntArray:
        """Return the public matrices, stacked, as they act on rows; shape `(rows, clients)`."""
        result: IntArray = self.columns.sum(axis=0)
        return result

    def noise_columns(self, part: Part) -> IntArray:
        """Return what applies to the draws of noise that nobody else knows, shape `(copies, rows, draws)`.

        They are the honest clients', or those of the one honest server: one for each row.
        """
        if self.task.setting.noising_servers:
            return np.eye(part.columns.shape[1], dtype=np.int64)[np.newaxis]
        return part.columns[..., self.honest]

    def floors(self, part: Part) -> FloatArray:
        """Return the variance of the one honest server's floor in these words of a release, shape `(w,)`."""
        layout = self.task.measurement.layout
        floors: FloatArray = np.square(layout.floor.of(layout.sigmas[part.sent][: part.width]), dtype=np.float64)
        return floors

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the words of a report by the columns that apply to them: those of rows, and behind them the totals."""
        sent, released = self.task.num_words, self.task.sketch_words
        totals = self.releases[0].matrix.totals
        rows = Part(self.columns, slice(0, sent - totals), slice(0, released - totals))
        if not totals:
            return (rows,)
        return rows, Part(self.totals, slice(sent - totals, sent), slice(released - totals, released))

    def applied(self, clients: IntArray, reports: IntArray) -> IntArray:
        """Return what some clients' reports of shape `(.., clients, w)` add to the release, `(.., rows, w/c)`."""
        result: IntArray = np.concatenate([part.applied(clients, reports) for part in self.parts], axis=-1)
        return result


def request_release(
    task: Task, clients: IntArray, released: set[int], seed: bytes, seams: Seams = HONEST
) -> DrawnRelease:
    """Ask for a release of some clients' reports: late seed, matrix, gate, and the ledger of released reports.

    `task` is the public parameters. `clients` are numbers, increasing, shape `(k,)`; they stand for the sorted report
    identifiers. `released` holds numbers released before; extended by these. `seed` is 32 bytes for the identifiers and
    nonces.
    """
    identifiers = sorted(derive_seed(seed, "report", client.to_bytes(8, "big")) for client in clients.tolist())
    nonces = [derive_seed(seed, "nonce", bytes([server])) for server in range(task.num_servers)]
    matrix = seams.draw(task, ReportIds.of(identifiers).root, nonces, len(clients))
    seams.ledger(released, clients)
    released.update(clients.tolist())
    return DrawnRelease(clients, matrix)


def set_scene(task: Task, num_clients: int, releases: Sequence[DrawnRelease], *, alone: bool = False) -> Scene:
    """Find the worst victim and the worst coalition for what was released.

    The victim has the largest leverage; the coalition grows client by client, each time by the one whose loss raises
    the victim's leverage most. With one entry per column that is the best possible: it empties the victim's row. Where
    servers add the noise the victim is whom the releases hold most of, and any others are corrupt; `alone` all are.
    """
    columns = np.concatenate([release.dense(num_clients) for release in releases], axis=1)
    totals = np.concatenate([release.totals(num_clients) for release in releases], axis=1)
    present = np.flatnonzero(columns.any(axis=(0, 1)))
    if task.setting.noising_servers or alone:
        victim = int(present[np.argmax(np.square(columns[..., present]).sum(axis=(0, 1)))])
        others = present[present != victim]
        corrupt = others if alone else others[: task.claim.max_corrupt_clients]
        honest = np.setdiff1d(present, corrupt)
        return Scene(task, num_clients, tuple(releases), columns, totals, victim, corrupt, honest)
    victim = int(present[first_largest(leverages(columns, present))])
    honest = present
    for _ in range(min(replace(task.measurement, claim=task.claim).quota, len(present) - 1)):
        others = honest[honest != victim]
        gains = [_leverage_without(columns, honest, victim, int(other)) for other in others]
        honest = honest[honest != others[first_largest(np.array(gains))]]
    corrupt = np.setdiff1d(present, honest)
    return Scene(task, num_clients, tuple(releases), columns, totals, victim, corrupt, honest)


def first_largest(values: FloatArray) -> int:
    """Return the place of the largest value; the first of those that are equal but for rounding.

    How linear algebra rounds depends on the processor, and which clients an audit chooses must not.
    """
    return int(np.argmax(values > values.max() - 1e-9))


def run_world(
    scene: Scene, rows: FloatArray, trials: int, random_bytes: RandomBytes, seams: Seams = HONEST, *, null: bool = False
) -> tuple[IntArray, IntArray]:
    """Run the pipeline `trials` times on the same rows with fresh noise and shares.

    `rows` are normalised, shape `(clients, d)`. `null` says whether the victim sends the null report with noise, that
    is noise alone, in the place of its row.

    Returns:
        What the adversary has: the released integers less the corrupt clients' part and, where servers add the noise,
        less that of all servers but one, shape `(trials, rows, w)`; and the corrupt clients' own reports, shape
        `(trials, corrupt, w)`.
    """
    return run_reports(scene, draw_rows(scene, rows, seams, null=null), trials, random_bytes, seams)


def draw_rows(scene: Scene, rows: FloatArray, seams: Seams, *, null: bool = False) -> Draw:
    """Return how the reports of rows, shape `(n, d)`, are drawn (see `run_world`)."""
    measurement = scene.task.measurement
    taken = exact_report(measurement, rows[scene.victim]) if null else np.int64(0)

    def draw(runs: int, random_bytes: RandomBytes) -> IntArray:
        # Every client, alone.
        noised = seams.encode(measurement, np.broadcast_to(rows, (runs, *rows.shape)), random_bytes)
        noised[:, scene.victim] -= taken
        return noised

    return draw


def run_reports(
    scene: Scene, draw: Draw, trials: int, random_bytes: RandomBytes, seams: Seams = HONEST
) -> tuple[IntArray, IntArray]:
    """Run the pipeline `trials` times on reports that are drawn anew each time (shapes as `run_world`)."""
    block = max(1, BLOCK_WORDS // (scene.num_clients * scene.task.num_words))
    parts = [
        _run_block(scene, draw(min(block, trials - start), random_bytes), random_bytes, seams)
        for start in range(0, trials, block)
    ]
    released, reports = (np.concatenate(part) for part in zip(*parts, strict=True))
    return released, reports


def exact_report(measurement: Measurement, row: FloatArray) -> IntArray:
    """Return the noiseless report of one normalised row of shape `(d,)`, rounded up if dithered; shape `(w,)`."""
    result: IntArray = exact_reports(measurement, row[np.newaxis])[0]
    return result


def _run_block(scene: Scene, noised: IntArray, random_bytes: RandomBytes, seams: Seams) -> tuple[IntArray, IntArray]:
    shares = split(to_ring(noised), scene.task.num_servers, random_bytes)
    sketches = [_sketch(scene.task, release, shares, random_bytes, seams) for release in scene.releases]
    reports = noised[:, scene.corrupt]
    known = scene.applied(scene.corrupt, reports)
    return np.concatenate(sketches, axis=1) - known, reports


def _sketch(task: Task, release: DrawnRelease, shares: RingArray, random_bytes: RandomBytes, seams: Seams) -> IntArray:
    """Return the released integers of every run, shape `(runs, m, w)`, from shares `(servers, runs, clients, w)`.

    Where servers add noise or a floor, all but the first belong to the adversary, who takes theirs out again: it is
    left out.
    """
    copies, totals = release.matrix.copies, release.matrix.totals
    runs, words = shares.shape[1], (shares.shape[3] - totals) // copies
    ranks = np.arange(len(release.clients))
    sketch_shares = np.zeros((task.num_servers, release.matrix.rows, runs * (words + totals)), np.uint64)
    finished = np.zeros((task.num_servers, release.matrix.rows, runs, words + totals), np.uint64)
    servers = zip(sketch_shares, finished, shares, strict=True)
    for number, (sketch_share, of_runs, every) in enumerate(servers):  # every server, alone
        # Copy after copy, and within a copy run after run: every run is one more stretch of words. Totals come last.
        own = every[:, release.clients]
        ordered = own[..., : copies * words].reshape(runs, len(ranks), copies, words).transpose(1, 2, 0, 3)
        release.matrix.add_rows(sketch_share[:, : runs * words], ranks, ordered.reshape(len(ranks), -1))
        sketch_share[0, runs * words :] = own[..., copies * words :].sum(axis=1, dtype=np.uint64).ravel()
        of_runs[..., :words] = sketch_share[:, : runs * words].reshape(release.matrix.rows, runs, words)
        of_runs[..., words:] = sketch_share[:, runs * words :].reshape(release.matrix.rows, runs, totals)
        if number == 0 or task.setting.noise == "clients":
            noised = of_runs.reshape(-1, words + totals)
            seams.add_noise(task.measurement, noised, random_bytes)
    return from_ring(combine(finished)).transpose(1, 0, 2)


def _leverage_without(columns: IntArray, honest: IntArray, victim: int, lost: int) -> float:
    rest = honest[honest != lost]
    return float(leverages(columns, rest)[np.searchsorted(rest, victim)])
