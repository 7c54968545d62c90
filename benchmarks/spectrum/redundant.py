"""Experiments of version 4 of the NDIS paper, as its authors' public program configures them: the tables at hand.

Redundant rows: 60 prototypes of 12 features with eigenvalues from 1.6 to .15, 100 noisy copies of each, a target along
the weaker directions; features standardised, rows clipped at 3 and targets at 1, so that l^2 = 10; r = 20, delta 1e-6,
four fifths of the rows learnt from. Flights: the delay of arrival from that of departure, both clipped at 3, r = 50.
Every run here draws split and noise anew, and redundant rows too, which the program draws once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from bench_ndis_survey import least_singular_value
from papers.subsampled_projection import unsampled_claim
from showing import Cell, FloatArray, Plot, Shown, spread

from lintra_curator.claims.claim import curator_claim
from lintra_curator.ndis.closed_form import rp_pstar
from lintra_protocol.noise.clipping import clip_norms
from lintra_protocol.privacy.gaussian import gaussian_mu
from spectrum.flights import flights

EIGENVALUES = (1.60, 1.30, 1.05, 0.86, 0.70, 0.57, 0.46, 0.37, 0.30, 0.24, 0.19, 0.15)
PROTOTYPES, COPIES, SCATTER, TARGET_NOISE = 60, 100, 0.025, 0.05
FEATURE_BOUND, DELTA = 3.0, 1e-6
THEIRS: dict[str, dict[str, tuple[str, ...]]] = {
    "gram": {
        "projection": ("1.11 ± 0.21", "0.90 ± 0.17", "0.82 ± 0.15", "0.78 ± 0.13"),
        "of a sample, q = .3": ("0.76 ± 0.03", "0.74 ± 0.02", "0.74 ± 0.02", "0.74 ± 0.02"),
    },
    "target": {
        "projection": ("0.90 ± 0.67", "0.58 ± 0.42", "0.40 ± 0.28", "0.29 ± 0.20"),
        "of a sample, q = .3": ("0.67 ± 0.39", "0.46 ± 0.24", "0.35 ± 0.20", "0.29 ± 0.18"),
    },
}
"""Mean and deviation of 8 runs, their report of 8 April 2026; the sample's X^T X is not divided by q there."""

REPORTED = (
    "Theirs: mean and deviation of 8 runs on one table, a report of their public program of 8 April 2026. There the "
    "X^T X of a sample is not divided by q, so that it misses .7 of the true one, and that is what it measures. Here "
    "it is divided. "
)
SCATTERED = "With so many rows the scatter of the sketch itself is all the error that a projection has. "
NOTE = (
    "{reported}Least squares is solved on a sketch with its ridge, as theirs. A projection that leaves a row out; "
    "Gaussian noise promises the same. Median and 10 % and 90 % points of {runs} runs, each with a split and noise of "
    "its own."
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
    return split(np.column_stack([features, target]), 1.0, generator)


def flown(run: int) -> Split:
    """Return the delays of all flights, departure and arrival, in a split of one run."""
    return split(flights()[:, [0, 2]], 3.0, np.random.default_rng([67890, run]))


def split(rows: FloatArray, target_bound: float, generator: np.random.Generator) -> Split:
    """Return four fifths of the rows and the others, standardised by the former and clipped."""
    rows, cut = rows[generator.permutation(len(rows))], len(rows) * 4 // 5
    rows = (rows - rows[:cut].mean(axis=0)) / rows[:cut].std(axis=0)
    targets = np.clip(rows[:, -1], -target_bound, target_bound)
    clipped = np.column_stack([clip_norms(rows[:, :-1], FEATURE_BOUND), targets])
    return Split(clipped[:cut], clipped[cut:])


@dataclass(frozen=True)
class Setting:
    """One experiment: its rows by run, l^2, r, q, epsilons, and what the program's report has, if there is one."""

    title: str
    drawn: Callable[[int], Split]
    square: float
    sketch_rows: int
    rate: float
    epsilons: tuple[float, ...]
    theirs: dict[str, dict[str, tuple[str, ...]]]
    note: str


REDUNDANT = Setting("redundant rows", drawn, 10.0, 20, 0.3, (0.1, 0.25, 0.5, 1.0), THEIRS, REPORTED)
FLIGHTS = Setting("flights", flown, 18.0, 50, 0.5, (0.5, 1.0, 2.0, 4.0), {}, SCATTERED)


def solved(moments: FloatArray, tested: FloatArray) -> float:
    """Return the mean squared error on test rows of least squares from second moments."""
    coefficients = np.linalg.pinv(moments[:-1, :-1], rcond=1e-6, hermitian=True) @ moments[:-1, -1]
    return float(np.mean((tested[:, -1] - tested[:, :-1] @ coefficients) ** 2))


def sketched(
    rows: FloatArray, ridge: float, rate: float, sketch_rows: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return an unbiased estimate of D^T D from a projection of a sample, and the sketch's products, ridge and all."""
    sample = rows[generator.random(len(rows)) < rate] if rate < 1 else rows
    bare = ridge * np.eye(rows.shape[1])
    factor = np.linalg.cholesky(sample.T @ sample + bare)
    values = generator.normal(size=(sketch_rows, len(factor))) @ factor.T
    products: FloatArray = values.T @ values / sketch_rows
    return (products - bare) / rate, products


def floored(
    gram: FloatArray, epsilon: float, square: float, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return D^T D with symmetric Gaussian noise, and the same with no eigenvalue below sd sqrt(d)."""
    size, sd = len(gram), square / math.sqrt(2) / gaussian_mu(epsilon, DELTA)
    upper = np.triu(generator.normal(size=(size, size)), 1)
    noisy = gram + sd * (upper + upper.T + math.sqrt(2) * np.diag(generator.normal(size=size)))
    values, vectors = np.linalg.eigh(noisy)
    return noisy, (vectors * np.maximum(values, sd * math.sqrt(size))) @ vectors.T


def ridges(epsilon: float, setting: Setting) -> dict[str, float]:
    """Return the ridge of every projection."""
    inner = unsampled_claim(curator_claim(epsilon, DELTA, "zero-out"), setting.rate)
    square, r = setting.square, setting.sketch_rows
    published = square / rp_pstar(epsilon, DELTA, r)
    return {
        "projection, published": published,
        "projection, exact, ours": published - square,
        "of a sample, published": square / rp_pstar(inner.float_epsilon, inner.float_delta, r),
        "least singular value": least_singular_value(epsilon, DELTA, r, math.sqrt(square)) ** 2,
    }


def measured(setting: Setting, runs: int) -> dict[str, dict[str, list[list[float]]]]:
    """Return the relative error of X^T X and the squared error on test rows: by table, name, epsilon and run."""
    found: dict[str, dict[str, list[list[float]]]] = {"gram": {}, "target": {}}

    def keep(which: str, name: str, place: int, value: float) -> None:
        found[which].setdefault(name, [[] for _ in setting.epsilons])[place].append(value)

    held = [ridges(epsilon, setting) for epsilon in setting.epsilons]
    for run in range(runs):
        rows, generator = setting.drawn(run), np.random.default_rng([54321, run])
        gram = rows.learnt.T @ rows.learnt
        truth = gram[:-1, :-1]
        for place, epsilon in enumerate(setting.epsilons):
            released = {
                name: sketched(
                    rows.learnt, ridge, setting.rate if "sample" in name else 1.0, setting.sketch_rows, generator
                )
                for name, ridge in held[place].items()
            }
            released["Gaussian noise on D^T D, ours"] = floored(gram, epsilon, setting.square, generator)
            keep("target", "no privacy", place, solved(gram, rows.tested))
            for name, (estimate, used) in released.items():
                error = np.linalg.norm(estimate[:-1, :-1] - truth) / np.linalg.norm(truth)
                keep("gram", name, place, float(error))
                keep("target", name, place, solved(used, rows.tested))
    return found


def parts(runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the tables by name, those of redundant rows of all runs, those of flights of a fifth of them."""
    return tables("ndis-redundant", REDUNDANT, runs) | tables("ndis-delays", FLIGHTS, max(runs // 5, 2))


def tables(prefix: str, setting: Setting, runs: int) -> dict[str, Callable[[], Shown]]:
    """Return both tables of an experiment; one set of runs serves both."""
    held: list[dict[str, dict[str, list[list[float]]]]] = []

    def table(name: str, which: str, what: str) -> Shown:
        if not held:
            held.append(measured(setting, runs))
        found, theirs = held[0][which], setting.theirs.get(which, {})
        lines: list[tuple[Cell, ...]] = []
        for place, epsilon in enumerate(setting.epsilons):
            told = (told[place] for told in theirs.values())
            lines.append((epsilon, *told, *(spread(values[place]) for values in found.values())))
        return Shown(
            name, f"NDIS, version 4, {setting.title}, r = {setting.sketch_rows}, delta 1e-6: {what}",
            ("epsilon", *(f"theirs: {kind}" for kind in theirs), *found), tuple(lines),
            NOTE.format(reported=setting.note, runs=runs), Plot("epsilon", what, log_x=True, log_y=True),
        )  # fmt: skip

    gram, target = f"{prefix}-moments", f"{prefix}-target"
    return {
        gram: lambda: table(gram, "gram", "relative error of X^T X"),
        target: lambda: table(target, "target", "squared error on test rows"),
    }
