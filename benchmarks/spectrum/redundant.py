"""The experiment of version 4 of the NDIS paper on redundant rows, as its authors' public program configures it.

60 prototypes of 12 features with eigenvalues from 1.6 to .15, 100 noisy copies of each, a target along the weaker
directions; features standardised, rows clipped at 3 and targets at 1, so that l^2 = 10; r = 20, delta 1e-6, four fifths
of the rows learnt from. Every run here draws rows, split and noise anew; the program draws the rows once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from bench_ndis_survey import least_singular_value
from showing import Cell, FloatArray, Plot, Shown, spread

from lintra_curator.ndis.closed import rp_pstar
from lintra_curator.papers.subsampled_projection import unsampled_claim
from lintra_curator.promise.claim import curator_claim
from lintra_protocol.clipping import clip_norms
from lintra_protocol.privacy.gaussian import gaussian_mu

EIGENVALUES = (1.60, 1.30, 1.05, 0.86, 0.70, 0.57, 0.46, 0.37, 0.30, 0.24, 0.19, 0.15)
PROTOTYPES, COPIES, SCATTER, TARGET_NOISE = 60, 100, 0.025, 0.05
FEATURE_BOUND, TARGET_BOUND, SQUARE = 3.0, 1.0, 10.0
SKETCH_ROWS, DELTA, RATE, EPSILONS = 20, 1e-6, 0.3, (0.1, 0.25, 0.5, 1.0)
THEIRS = {
    "gram": {
        "projection": ("1.11 ± 0.21", "0.90 ± 0.17", "0.82 ± 0.15", "0.78 ± 0.13"),
        "of a sample": ("0.76 ± 0.03", "0.74 ± 0.02", "0.74 ± 0.02", "0.74 ± 0.02"),
    },
    "target": {
        "projection": ("0.90 ± 0.67", "0.58 ± 0.42", "0.40 ± 0.28", "0.29 ± 0.20"),
        "of a sample": ("0.67 ± 0.39", "0.46 ± 0.24", "0.35 ± 0.20", "0.29 ± 0.18"),
    },
}
"""Mean and deviation of 8 runs, their report of 8 April 2026; the sample's X^T X is not divided by q there."""

NOTE = (
    "Theirs: mean and deviation of 8 runs on one table, a report of their public program of 8 April 2026; there the "
    "X^T X of a sample is not divided by q, so that it misses .7 of the true one, and that is what it measures. Here "
    "it is divided. Least squares is solved on a sketch with its ridge, as theirs. A projection that leaves a row out; "
    "Gaussian noise promises the same. Median and 10 % and 90 % points of {runs} runs, each with rows, split and noise "
    "of its own."
)


@dataclass(frozen=True)
class Split:
    """Standardised and clipped rows, the target last."""

    learnt: FloatArray
    tested: FloatArray


def drawn(run: int) -> Split:
    """Return rows of one run."""
    generator, size = np.random.default_rng([12345, run]), len(EIGENVALUES)
    basis = np.linalg.qr(generator.normal(size=(size, size)))[0]
    prototypes = generator.normal(size=(PROTOTYPES, size)) * np.sqrt(EIGENVALUES) @ basis.T
    features = np.repeat(prototypes, COPIES, axis=0) + SCATTER * generator.normal(size=(PROTOTYPES * COPIES, size))
    places = np.linspace(0, 1, size)
    bump = np.exp(-(((places - 0.72) / 0.16) ** 2) / 2) * (np.array(EIGENVALUES) / max(EIGENVALUES)) ** -1.5
    slope = basis @ (generator.normal(size=size) * bump)
    target = features @ slope / np.linalg.norm(slope) + TARGET_NOISE * generator.normal(size=len(features))
    rows = np.column_stack([features, target])[generator.permutation(len(features))]
    cut = len(rows) * 4 // 5
    rows = (rows - rows[:cut].mean(axis=0)) / rows[:cut].std(axis=0)
    targets = np.clip(rows[:, -1], -TARGET_BOUND, TARGET_BOUND)
    clipped = np.column_stack([clip_norms(rows[:, :-1], FEATURE_BOUND), targets])
    return Split(clipped[:cut], clipped[cut:])


def solved(moments: FloatArray, tested: FloatArray) -> float:
    """Return the mean squared error on test rows of least squares from second moments."""
    coefficients = np.linalg.pinv(moments[:-1, :-1], rcond=1e-6, hermitian=True) @ moments[:-1, -1]
    return float(np.mean((tested[:, -1] - tested[:, :-1] @ coefficients) ** 2))


def sketched(
    rows: FloatArray, ridge: float, rate: float, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return an unbiased estimate of D^T D from a projection of a sample, and the sketch's products, ridge and all."""
    sample = rows[generator.random(len(rows)) < rate] if rate < 1 else rows
    bare = ridge * np.eye(rows.shape[1])
    factor = np.linalg.cholesky(sample.T @ sample + bare)
    values = generator.normal(size=(SKETCH_ROWS, len(factor))) @ factor.T
    products: FloatArray = values.T @ values / SKETCH_ROWS
    return (products - bare) / rate, products


def floored(gram: FloatArray, epsilon: float, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return D^T D with symmetric Gaussian noise, and the same with no eigenvalue below sd sqrt(d)."""
    size, sd = len(gram), SQUARE / math.sqrt(2) / gaussian_mu(epsilon, DELTA)
    upper = np.triu(generator.normal(size=(size, size)), 1)
    noisy = gram + sd * (upper + upper.T + math.sqrt(2) * np.diag(generator.normal(size=size)))
    values, vectors = np.linalg.eigh(noisy)
    return noisy, (vectors * np.maximum(values, sd * math.sqrt(size))) @ vectors.T


def ridges(epsilon: float) -> dict[str, float]:
    """Return the ridge of every projection."""
    inner = unsampled_claim(curator_claim(epsilon, DELTA, "zero-out"), RATE)
    published = SQUARE / rp_pstar(epsilon, DELTA, SKETCH_ROWS)
    return {
        "projection, published": published,
        "projection, exact, ours": published - SQUARE,
        "of a sample, published": SQUARE / rp_pstar(inner.float_epsilon, inner.float_delta, SKETCH_ROWS),
        "least singular value": least_singular_value(epsilon, DELTA, SKETCH_ROWS, math.sqrt(SQUARE)) ** 2,
    }


def measured(runs: int) -> dict[str, dict[str, list[list[float]]]]:
    """Return the relative error of X^T X and the squared error on test rows: by table, name, epsilon and run."""
    found: dict[str, dict[str, list[list[float]]]] = {"gram": {}, "target": {}}

    def keep(which: str, name: str, place: int, value: float) -> None:
        found[which].setdefault(name, [[] for _ in EPSILONS])[place].append(value)

    for run in range(runs):
        split, generator = drawn(run), np.random.default_rng([54321, run])
        gram = split.learnt.T @ split.learnt
        truth = gram[:-1, :-1]
        for place, epsilon in enumerate(EPSILONS):
            released = {
                name: sketched(split.learnt, ridge, RATE if "sample" in name else 1.0, generator)
                for name, ridge in ridges(epsilon).items()
            }
            released["Gaussian noise on D^T D, ours"] = floored(gram, epsilon, generator)
            keep("target", "no privacy", place, solved(gram, split.tested))
            for name, (estimate, used) in released.items():
                error = np.linalg.norm(estimate[:-1, :-1] - truth) / np.linalg.norm(truth)
                keep("gram", name, place, float(error))
                keep("target", name, place, solved(used, split.tested))
    return found


def parts(runs: int) -> dict[str, Callable[[], Shown]]:
    """Return both tables by name; one set of runs serves both."""
    held: list[dict[str, dict[str, list[list[float]]]]] = []

    def table(name: str, which: str, what: str) -> Shown:
        if not held:
            held.append(measured(runs))
        found = held[0][which]
        lines: list[tuple[Cell, ...]] = []
        for place, epsilon in enumerate(EPSILONS):
            theirs = [THEIRS[which][kind][place] for kind in ("projection", "of a sample")]
            lines.append((epsilon, *theirs, *(spread(values[place]) for values in found.values())))
        return Shown(
            name, f"NDIS, version 4, redundant rows, r = {SKETCH_ROWS}, delta 1e-6: {what}",
            ("epsilon", "theirs: projection", "theirs: of a sample, q = .3", *found), tuple(lines),
            NOTE.format(runs=runs), Plot("epsilon", what, log_x=True, log_y=True),
        )  # fmt: skip

    return {
        "ndis-redundant-moments": lambda: table("ndis-redundant-moments", "gram", "relative error of X^T X"),
        "ndis-redundant-target": lambda: table("ndis-redundant-target", "target", "squared error on test rows"),
    }
