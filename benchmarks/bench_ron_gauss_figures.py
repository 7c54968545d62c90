"""RON-Gauss (Chanyaswad, Liu, Mittal 2019): its three experiments and normality, every cell with 20 runs.

    python benchmarks/bench_ron_gauss_figures.py [--full] [--only clustering ...]

Beside the paper's pipeline and ours stand its baselines as we read them: MODIPS (Liu 2016), a noised normal model of
all columns, which is the paper's pipeline without a projection; DP-PCA (`ron_gauss/leading.py`); and real rows. The
three data sets of the paper are not shipped here. Small runs take wine and breast cancer, full ones the digits too;
regression has concrete, energy, and diabetes where it is at hand (`ron_gauss/diabetes.py`).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
from bench_ron_gauss import DELTA, SYNTHETIC, Rows, Split, hidden, normalised, ours, paper, real, with_classes
from papers.ron_gauss import PaperQuestion, release_paper
from papers.ron_gauss_sensitivity import published_delta, published_factor
from ron_gauss.leading import classified, cluster_rows, regressed
from ron_gauss.targets import with_targets
from scipy import stats
from scipy.cluster.vq import kmeans2
from showing import Cell, FloatArray, IntArray, Plot, Shown, parser, runs_of, show, spread

from lintra_analysis.kinds.joint_question import JointQuestion
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ron_gauss.ron_gauss import release_ron_gauss
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.transforms.orthonormal import frame

EPSILONS = (1.0, 4.0)
DIMENSIONS = (1, 2, 3, 5, 8, 13)
PUBLISHED = {"calibration": "published", "accept_published_loss": True}
Score = Callable[[Split, float], float]


def tables(full: bool) -> list[Rows]:
    """Return the data sets."""
    sizes = {"wine": 4, "breast_cancer": 5} | ({"digits": 10} if full else {})
    return [with_classes(name, dimension) for name, dimension in sizes.items()]


def without_projection(split: Split) -> Split:
    """Return the same split whose paper's pipeline keeps all columns."""
    return replace(split, rows=replace(split.rows, dimension=split.rows.values.shape[1]))


def over_runs(score: Score, rows: Rows, epsilon: float, runs: int) -> Cell:
    """Return the spread over splits, frames and noise; runs that are refused for want of rows are left out."""
    found = []
    for run in range(runs):
        with suppress(InvalidAnalysisError):
            found.append(score(Split.of(rows, run), epsilon))
    return spread(found) if found else None


def compared(lines: dict[str, Score], rows: list[Rows], runs: int) -> tuple[tuple[Cell, ...], ...]:
    """Return a row for each data set and epsilon."""
    return tuple(
        (f"{each.name}, epsilon {epsilon:g}", *(over_runs(score, each, epsilon, runs) for score in lines.values()))
        for each in rows
        for epsilon in EPSILONS
    )


def real_rows(label: str) -> dict[str, Score]:
    """Return what somebody gets who sees the real rows."""
    return {
        "real rows": lambda s, e: real(s, label, s.rows.values.shape[1]),
        "real rows, projected": lambda s, e: real(s, label, s.rows.dimension),
    }


def pipelines(label: str, model: str, leading: Score) -> dict[str, Score]:
    """Return the private ways to synthetic rows, with the paper's model for such a label and its DP-PCA."""
    return {
        "as published (not private as stated)": lambda s, e: paper(s, model, e, **PUBLISHED),
        "corrected": lambda s, e: paper(s, model, e),
        "MODIPS": lambda s, e: paper(without_projection(s), model, e),
        "DP-PCA": leading,
        "ours, p": lambda s, e: ours(s, label, e, s.rows.dimension),
        "ours, p*": lambda s, e: ours(s, label, e, None),
    }


def classification(full: bool, runs: int) -> Shown:
    """Return the accuracy on real rows of a logistic regression that learnt from synthetic ones."""
    lines = real_rows("class") | pipelines("class", "mixture", classified)
    return Shown(
        "ron-gauss-classification",
        "RON-Gauss, classification: accuracy on real rows",
        ("data", *lines),
        compared(lines, tables(full), runs),
        f"Delta 1e-6 for ours and DP-PCA, pure epsilon for the paper's pipeline and MODIPS; median and 10 % and 90 % "
        f"points of {runs} runs, each with a split, a frame and noise of its own. A dash: too few rows for a model.",
    )


def regression(runs: int) -> Shown:
    """Return the error on real rows of a ridge regression that learnt from synthetic ones."""
    alone: dict[str, Score] = {"their mean alone": lambda s, e: mean_alone(s)}
    lines = real_rows("target") | alone | pipelines("target", "regression", regressed)
    return Shown(
        "ron-gauss-regression",
        "RON-Gauss, regression: root mean squared error on real rows, the target from -1 to 1",
        ("data", *lines),
        compared(lines, with_targets(), runs),
        "A ridge regression learns from synthetic rows, p = 4; 'their mean alone' predicts the mean of the real rows "
        "that others learn from: more than that is worse than nothing. Delta and runs as in the classification, "
        f"{runs} runs. Diabetes is scikit-learn's copy, which is not shipped (`ron_gauss/diabetes.py`).",
    )


def mean_alone(split: Split) -> float:
    """Return the error of predicting the mean of the rows to learn from."""
    target = split.rows.target
    return float(np.sqrt(np.mean((target[split.test] - target[split.train].mean()) ** 2)))


def clustering(full: bool, runs: int) -> Shown:
    """Return the silhouette of real test rows in clusters that were learnt from synthetic rows, without labels."""
    lines: dict[str, Score] = {
        "real rows": lambda s, e: clustered(s, s.rows.values[s.train], s.rows.values.shape[1]),
        "real rows, projected": lambda s, e: clustered(
            s, s.projected(s.rows.values[s.train], s.rows.dimension), s.rows.dimension
        ),
        "corrected": lambda s, e: clustered(s, unsupervised(s, e), s.rows.dimension, unit=True),
        "MODIPS": lambda s, e: clustered(
            without_projection(s), unsupervised(without_projection(s), e), s.rows.values.shape[1], unit=True
        ),
        "DP-PCA": lambda s, e: clustered(s, cluster_rows(s, e), s.rows.values.shape[1]),
        "ours, p*": our_clusters,
    }
    return Shown(
        "ron-gauss-clustering",
        "RON-Gauss, clustering: silhouette of real test rows, clusters learnt from synthetic rows",
        ("data", *lines),
        compared(lines, tables(full), runs),
        f"k-means with as many clusters as classes, no labels used; 1 is best, 0 none. {runs} runs as above. One "
        "normal law has no clusters, so that what is learnt is its longest directions; ours is one law here too. A "
        "silhouette says how far clusters are apart, not whether they are the classes: those of DP-PCA lie about the "
        "origin, on both sides of it, and one of them may hold few real rows.",
    )


def unsupervised(split: Split, epsilon: float) -> FloatArray:
    """Return rows of the paper's Algorithm 3, noise corrected, in its projected space."""
    question = PaperQuestion("unsupervised", split.rows.dimension, split.frame_seed)
    words = split.words(f"unsupervised {split.rows.dimension} {epsilon}")
    release = release_paper(split.rows.values[split.train], question, words, epsilon=epsilon)
    return hidden(release.synthesize(SYNTHETIC, split.seed))


def our_clusters(split: Split, epsilon: float) -> float:
    """Return the silhouette with one joint release without a label."""
    own = split.rows
    release = release_ron_gauss(
        own.raw[split.train],
        own.columns("class")[:-1],
        curator_claim(epsilon, DELTA),
        split.words(f"clusters {epsilon}"),
        question=JointQuestion(bins=0),
        frame_seed=split.frame_seed,
    )
    rows = hidden(synthesize(fit(release), SYNTHETIC, split.seed, "projected"))
    return clustered(split, rows, release.dimension)


def clustered(split: Split, rows: FloatArray, dimension: int, *, unit: bool = False) -> float:
    """Return the silhouette of the test rows in clusters of some rows.

    Args:
        split: whose test rows, in the frame of this run.
        rows: from which clusters are learnt.
        dimension: of the frame.
        unit: whether test rows are centred and normalised, as the paper's rows are.
    """
    number, test = int(split.rows.classes.max()) + 1, split.rows.values[split.test]
    if unit:
        test = normalised(normalised(test) - normalised(split.rows.values[split.train]).mean(axis=0))
    test = split.projected(test, dimension)
    centres, _ = kmeans2(rows, number, minit="++", rng=np.random.default_rng(split.seed))
    nearest = np.square(test[:, None] - centres).sum(axis=2).argmin(axis=1)
    return silhouette(test, nearest)


def silhouette(rows: FloatArray, labels: IntArray) -> float:
    """Return the mean silhouette coefficient (Rousseeuw 1987); 0 where all rows lie in one cluster."""
    found = np.unique(labels)
    if found.size < 2:
        return 0.0
    distances = np.sqrt(np.maximum(np.square(rows[:, None] - rows).sum(axis=2), 0))
    sums = np.stack([distances[:, labels == each].sum(axis=1) for each in found], axis=1)
    counts = np.array([np.sum(labels == each) for each in found])
    own = np.searchsorted(found, labels)
    at = np.arange(len(rows))
    inside = sums[at, own] / np.maximum(counts[own] - 1, 1)
    others = sums / counts
    others[at, own] = np.inf
    outside = others.min(axis=1)
    widths = np.where(counts[own] > 1, (outside - inside) / np.maximum(inside, outside), 0.0)
    return float(widths.mean())


def normality(full: bool, runs: int) -> Shown:
    """Return how far projections are from normal, by p: the mean Kolmogorov distance of standardised coordinates."""
    held = tables(full)
    rows = []
    for dimension in DIMENSIONS:
        cells: list[Cell] = [dimension]
        for each in held:
            if dimension > each.values.shape[1]:
                cells.append(None)
                continue
            centred = normalised(normalised(each.values) - normalised(each.values).mean(axis=0))
            found = []
            for run in range(runs):
                turned = centred @ (frame(bytes([run + 1]) * 32, each.values.shape[1], dimension) * 2.0**-15)
                # Mahalanobis lengths see more than single coordinates: they should be chi-square.
                turned = (turned - turned.mean(axis=0)) @ np.linalg.inv(
                    np.linalg.cholesky(np.atleast_2d(np.cov(turned.T)))
                ).T
                found.append(float(stats.kstest(np.square(turned).sum(axis=1), "chi2", (dimension,)).statistic))
            cells.append(spread(found))
        rows.append(tuple(cells))
    return Shown(
        "ron-gauss-normality",
        "RON-Gauss, Theorem 2: how far projected rows are from a normal law",
        ("p", *(each.name for each in held)),
        tuple(rows),
        f"Kolmogorov distance of Mahalanobis lengths from chi-square of p degrees, rows as Algorithm 1 leaves them, "
        f"{runs} uniform frames. Theorem 2 promises little of it beyond p of 2 ln m / ln ln m, about 6 for m = 100.",
        Plot("p", "Kolmogorov distance"),
    )


def losses() -> Shown:
    """Return what the published constants lose."""
    rows: list[tuple[Cell, ...]] = []
    for dimension in (2, 4, 6, 10, 20, 50):
        delta = published_delta(dimension, 1.0)[1] if dimension <= 10 else None
        factors = (published_factor(dimension, mirrored=mirrored) for mirrored in (False, True))
        rows.append((dimension, *factors, delta))
    return Shown(
        "ron-gauss-losses",
        "RON-Gauss, Lemma 4: what a published epsilon of 1 for the covariance is in truth",
        ("p", "all entries noised", "triangle mirrored", "delta(1) of the worst pair of rows"),
        tuple(rows),
        "Mathematics. Delta is searched for up to p = 10 only.",
    )


def parts(full: bool, runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the tables by name."""
    return {
        "ron-gauss-losses": losses,
        "ron-gauss-classification": lambda: classification(full, runs),
        "ron-gauss-regression": lambda: regression(runs),
        "ron-gauss-clustering": lambda: clustering(full, runs),
        "ron-gauss-normality": lambda: normality(full, runs),
    }


def main() -> None:
    """Show what is asked for."""
    asked = parser(__doc__, 20, 20).parse_args()
    show(parts(asked.full, runs_of(asked)), asked)


if __name__ == "__main__":
    main()
