"""What the peers make of a table; runs in their environment, and imports nothing of Lintra.

    PEERS/bin/python benchmarks/peers/fits.py in.npz out.npz

in.npz holds `rows` of shape `(n, D)`, the target last, every entry within `bound`; `row_bound`, `epsilon`, `rank` and
`seeds`. out.npz holds for each peer and seed the coefficients, or the components, or nothing where the peer failed.
"""

import signal
import sys
import warnings

import numpy as np


def ibm_regression(given, seed):
    """Return the coefficients of diffprivlib's linear regression (functional mechanism, pure epsilon)."""
    from diffprivlib.models import LinearRegression

    rows, bound = given["rows"], float(given["bound"])
    ends = np.full(rows.shape[1] - 1, bound)
    model = LinearRegression(
        epsilon=float(given["epsilon"]), bounds_X=(-ends, ends), bounds_y=(-bound, bound), random_state=seed
    )
    return model.fit(rows[:, :-1], rows[:, -1]).coef_


def ibm_components(given, seed):
    """Return the components of diffprivlib's principal component analysis (Wishart and Laplace, pure epsilon)."""
    from diffprivlib.models import PCA

    ends = np.full(given["rows"].shape[1], float(given["bound"]))
    model = PCA(
        int(given["rank"]), epsilon=float(given["epsilon"]), centered=True, bounds=(-ends, ends),
        data_norm=float(given["row_bound"]), random_state=seed,
    )  # fmt: skip
    return model.fit(_clipped(given)).components_


def opendp_components(given, seed):
    """Return the components of OpenDP's principal component analysis (exponential mechanism, pure epsilon).

    Its noise takes no seed: runs differ, and no run comes again.
    """
    import opendp.prelude as dp
    from opendp.extras.sklearn.decomposition import PCA

    dp.enable_features("contrib", "floating-point", "honest-but-curious")
    count, size = given["rows"].shape
    model = PCA(
        epsilon=float(given["epsilon"]), row_norm=float(given["row_bound"]), n_samples=count, n_features=size,
        n_components=int(given["rank"]),
    )  # fmt: skip
    return model.fit(_clipped(given)).components_


SECONDS = 20
"""A fit that takes longer has failed."""


def _late(*_):
    raise TimeoutError(f"no answer within {SECONDS} seconds")


def _clipped(given):
    rows = given["rows"]
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1, float(given["row_bound"]) / np.maximum(norms, 1e-300))


PEERS = {"ibm_regression": ibm_regression, "ibm_components": ibm_components, "opendp_components": opendp_components}


def main():
    """Fit every peer for every seed."""
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1], allow_pickle=False) as held:
        given = dict(held)
    found = {}
    signal.signal(signal.SIGALRM, _late)
    for name, fit in PEERS.items():
        for seed in given["seeds"]:
            signal.alarm(SECONDS)
            try:
                found[f"{name}_{seed}"] = np.asarray(fit(given, int(seed)))
            except Exception as error:
                print(f"{name}, seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
            signal.alarm(0)
    np.savez(sys.argv[2], **found)


if __name__ == "__main__":
    main()
