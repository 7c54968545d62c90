"""The audits of `osnap_published`: opposite corners of the box, and copies of a row with independent noise."""

from functools import partial
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.trials.audit_case import Case, make_case_task, numbers, task_of
from lintra_audit.trials.neighbours import HOSTILE, Pair, one_unclipped, step_below
from lintra_audit.trials.planted_faults import noiseless, only_for, without_room_for_the_count
from lintra_audit.trials.scaled_task import small_claim
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError, LintraError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.osnap_published import OsnapPublished, row_bound_of
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.bisection import bisect
from lintra_protocol.task import Task

COHORTS = (120, 240, 480, 960)
"""Sizes of a twin's cohort: equation (4) has no value for fewer clients than it takes to fill a row surely."""


def cases() -> list[Case]:
    """Return the published calibration, whose claim is false: with one copy, with two, and with a clip counter."""
    one, two = (
        OsnapPublished(entry_bound="1", fraction_bits=0, sigma=4, rows=s, sparsity=s, published_epsilon="1")
        for s in (1, 2)
    )
    published = partial(make_case_task, one, num_columns=1, min_clients=120, epsilon="1.12", delta="0.000001")
    copies = partial(make_case_task, two, num_columns=1, min_clients=130, epsilon="1.5", delta="0.001")
    counted = two.model_copy(update={"clip_count_weight": "1"})
    counts = partial(make_case_task, counted, num_columns=1, min_clients=130, epsilon="1.5", delta="0.001")
    return [
        Case("published", "published calibration, s = 1, n = 120, m = 1, d = 1", published, 120, effort=2),
        Case("published-2", "published calibration, s = 2 copies, n = 130, m = 2, d = 1", copies, 130),
        Case("published-count", "the same with a clip counter, n = 130, m = 2, d = 1", counts, 130),
    ]


def corners(task: Task) -> Pair:
    """Return rows whose entries are all far too large, in both directions: opposite corners of the box."""
    row = np.full(task.num_columns, float(task.mechanism.row_bound) * HOSTILE)
    return one_unclipped(task, (-row, row))


def nearest(task: Task) -> Pair:
    """Return rows of which one entry differs by an integer step."""
    return step_below(task, cast("OsnapPublished", task.mechanism).entry_steps)


def twin(task: Task) -> Task:
    """Return the published sketch of one column, in as many rows as copies, asked for the epsilon that gives its mu.

    Raises InvalidTaskError if no small cohort has a published noise with this mu.
    """
    mechanism = cast("OsnapPublished", task.mechanism)
    mu, copies = task.privacy(task.claim.min_clients).mu, min(mechanism.sparsity, 2)
    asked = mechanism.model_copy(
        update={"rows": copies, "sparsity": copies, "row_bound": row_bound_of(mechanism.entry_bound, 1)}
    )
    for clients in COHORTS:
        claim = small_claim(task, clients)
        try:
            return task_of(_with_mu(Measurement(asked, 1, Setting(), claim), mu), numbers(1))
        except LintraError:
            continue
    raise InvalidTaskError(f"no cohort of up to {COHORTS[-1]} clients has a published noise with mu {mu:.4g}")


def _with_mu(measurement: Measurement, mu: float) -> Measurement:
    """Return the measurement asked for the epsilon whose published noise has a mu, on a grid where it fits."""
    measurement = measurement.changed(fraction_bits=min(measurement.mechanism.fraction_bits, 12))

    def asked_for(epsilon: float) -> Measurement:
        asked = measurement.changed(published_epsilon=real(f"{epsilon:.9g}"))
        return asked.changed(sigma=asked.smallest_sigma())

    clients = measurement.claim.min_clients
    low, _ = bisect(1e-6, 64.0, lambda epsilon: asked_for(epsilon).privacy(clients).mu <= mu, width=1e-9)
    return asked_for(low)


def _one_noise(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with one noise for all copies of a row."""
    exact = noiseless(measurement, rows)
    runs, clients, columns = rows.shape
    copies = measurement.layout["row"].copies
    noise = measurement.noise(runs * clients, random_bytes).reshape(exact.shape)
    first, counter = np.split(noise, [columns], axis=-1)[0], noise[..., copies * columns :]
    result: IntArray = exact + np.concatenate([first] * copies + [counter], axis=-1)
    return result


def _unclipped(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with entries clipped to the norm of a row, sqrt(d) times and 5 % beyond their bound."""
    published = cast("OsnapPublished", measurement.mechanism)
    wide = measurement.changed(entry_bound=real(f"{float(fraction(published.row_bound)) * 1.05:.9g}"))
    runs, clients, columns = rows.shape
    return wide.encode(rows.reshape(-1, columns), random_bytes).reshape(runs, clients, -1)


def claimed_epsilon(mechanism: Mechanism) -> Real:
    """Return the epsilon that Theorem 3.4 claims for this noise."""
    return cast("OsnapPublished", mechanism).published_epsilon


AUDIT = KindAudit(
    cases=cases,
    faults={
        "one-noise-for-copies": Planted(
            "all copies of a row carry the same noise",
            only_for("osnap_published", _one_noise),
            "published-2",
            frozenset({"noise law"}),
        ),
        "free-clip-count-of-copies": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("osnap_published", without_room_for_the_count),
            "published-count",
            frozenset({"noise law"}),
        ),
        "entries-unclipped": Planted(
            "entries are clipped to the bound of the norm, and 5 % more",
            only_for("osnap_published", _unclipped),
            "published",
            frozenset({"encoder"}),
        ),
    },
    farthest=corners,
    nearest=nearest,
    twin=twin,
    claimed_elsewhere=claimed_epsilon,
)
