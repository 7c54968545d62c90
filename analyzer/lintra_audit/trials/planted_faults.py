"""Faults that any mechanism can have. Each replaces the one function of the pipeline in which it would arise.

They show that the audit can fail. Faults of a single mechanism are in `lintra_audit.kinds`. docs/explanation/audit.md
says which check catches which fault, and how surely.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt, sqrt

import numpy as np

from lintra_audit.trials.simulated_release import Encode, Seams, encode, exact_reports
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray, RingArray, to_ring
from lintra_protocol.encoding.documents import fraction, real
from lintra_protocol.mechanisms.layout import CLIPPED, Layout
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.rules.release import late_seed
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix

SIGMA_FACTOR = Fraction(9, 10)
BOUND_FACTOR = Fraction(105, 100)


def _small_sigma(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with noise of nine tenths of the deviation."""
    sigma = round(measurement.mechanism.sigma * SIGMA_FACTOR)
    return encode(measurement.changed(sigma=sigma), rows, random_bytes)


def _missing_noise(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode, and leave out the last client's noise."""
    noised = encode(measurement, rows, random_bytes)
    noised[:, -1] = noiseless(measurement, rows[:, -1:])[:, 0]
    return noised


def _floating_point(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with a normal variate in single precision, scaled and then rounded, as many a library would draw it."""
    exact = noiseless(measurement, rows)
    words = np.frombuffer(random_bytes(8 * exact.size), np.uint32).reshape(2, *exact.shape)
    uniform = ((words >> np.uint32(8)).astype(np.float32) + np.float32(1)) * np.float32(2.0**-24)
    normal = np.sqrt(np.float32(-2) * np.log(uniform[0])) * np.cos(np.float32(2 * np.pi) * uniform[1])
    noise: IntArray = np.rint(normal * measurement.layout.sigmas.astype(np.float32)).astype(np.int64)
    return exact + noise


def _wide_bound(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with a clipping bound five per cent above the task's."""
    bound = real(str(float(fraction(measurement.mechanism.row_bound) * BOUND_FACTOR)))
    return encode(measurement.changed(row_bound=bound), rows, random_bytes)


def _shared_noise(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with one noise stream for all clients, as devices with equal seeds would."""
    return noiseless(measurement, rows) + measurement.noise(len(rows), random_bytes)[:, np.newaxis]


def without_room_for_the_count(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode rows, shape `(runs, n, d)`, with a clip counter and the noise that would do without one."""
    sigma = round(measurement.mechanism.sigma / sqrt(1 + float(fraction(measurement.mechanism.clip_count_weight)) ** 2))
    quiet = measurement.changed(sigma=sigma)
    runs, clients, _ = rows.shape
    noise = quiet.noise(runs * clients, random_bytes).reshape(runs, clients, -1)
    return noiseless(measurement, rows) + noise


def counting_values(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode rows, shape `(runs, n, d)`, with a clip counter of values, not rows, beyond the bound."""
    noised = encode(measurement, rows, random_bytes)
    beyond = (np.abs(rows) > float(fraction(measurement.mechanism.row_bound))).sum(axis=-1)
    again: IntArray = np.maximum(beyond - 1, 0) * measurement.layout[CLIPPED].bound
    noised[..., -1] += again
    return noised


def _no_server_noise(measurement: Measurement, share: RingArray, random_bytes: RandomBytes) -> None:
    """Forget the noise of the honest server."""
    if not measurement.setting.noising_servers:
        measurement.add_server_noise(share, random_bytes)


def _small_server_noise(measurement: Measurement, share: RingArray, random_bytes: RandomBytes) -> None:
    """Add a server's noise of nine tenths of the deviation."""
    sigma = round(measurement.mechanism.sigma * SIGMA_FACTOR)
    measurement.changed(sigma=sigma).add_server_noise(share, random_bytes)


def _no_floor(measurement: Measurement, share: RingArray, random_bytes: RandomBytes) -> None:
    """Forget the floor of the honest server."""
    if not measurement.setting.floor_servers:
        measurement.add_server_noise(share, random_bytes)


def _same_floor(measurement: Measurement, share: RingArray, random_bytes: RandomBytes) -> None:
    """Add to every word the floor of the word with the least noise."""
    if measurement.setting.floor_servers:
        share += to_ring(discrete_gaussian(share.shape, measurement.mechanism.floor, random_bytes))
    else:
        measurement.add_server_noise(share, random_bytes)


def _floor_less_own_noise(measurement: Measurement, share: RingArray, random_bytes: RandomBytes) -> None:
    """Add a floor from which a client's own noise is taken a second time."""
    floor = isqrt(max(measurement.mechanism.floor**2 - measurement.mechanism.sigma**2, 4))
    changed = measurement.changed(floor=floor) if measurement.setting.floor_servers else measurement
    changed.add_server_noise(share, random_bytes)


def _no_gate(task: Task, root: bytes, nonces: Sequence[bytes], num_clients: int) -> PublicMatrix:
    """Draw a matrix for whatever is asked for."""
    return task.mechanism.public_matrix(num_clients, late_seed(task, BATCH, root, nonces))


def _no_ledger(released: set[int], clients: IntArray) -> None:
    """Forget what was released."""


def noiseless(measurement: Measurement, rows: FloatArray) -> IntArray:
    """Return the exact encodings of rows of shape `(runs, clients, d)`, dithered ones rounded up."""
    runs, clients, columns = rows.shape
    return exact_reports(measurement, rows.reshape(-1, columns)).reshape(runs, clients, -1)


FAULTS: dict[str, Seams] = {
    "sigma": Seams(encode=_small_sigma),
    "missing-noise": Seams(encode=_missing_noise),
    "floating-point": Seams(encode=_floating_point),
    "bound": Seams(encode=_wide_bound),
    "shared-noise": Seams(encode=_shared_noise),
    "gate": Seams(draw=_no_gate),
    "second-release": Seams(ledger=_no_ledger),
    "silent-server": Seams(add_noise=_no_server_noise),
    "server-sigma": Seams(add_noise=_small_server_noise),
    "floor-left-out": Seams(add_noise=_no_floor),
    "floor-of-one-word": Seams(add_noise=_same_floor),
    "floor-less-own-noise": Seams(add_noise=_floor_less_own_noise),
}
"""By name; each replaces one seam."""


def only_for(kind: str, faulty: Encode) -> Seams:
    """Return seams at which clients of one mechanism make a mistake, and those of others none."""

    def encoded(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
        return (faulty if measurement.mechanism.kind == kind else encode)(measurement, rows, random_bytes)

    return Seams(encode=encoded)


def without_noise_in(kind: str, words: Callable[[Layout], slice]) -> Seams:
    """Return seams at which clients of one mechanism forget the noise of some words of a report."""

    def forgetful(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
        noised, bare = encode(measurement, rows, random_bytes), words(measurement.layout)
        noised[..., bare] = noiseless(measurement, rows)[..., bare]
        return noised

    return only_for(kind, forgetful)
