"""What the peers make of a table; runs in their environment, and imports nothing of Lintra.

    PEERS/bin/python benchmarks/peers/fits.py in.npz out.npz [in.npz out.npz ...]

in.npz holds `rows` of shape `(n, D)`, the target last, every entry within `bound`; `row_bound`, `epsilon`, `rank`,
`peers`, who is asked; `seeds`, and `learnt`, for each seed the numbers of the rows it learns from. out.npz holds for
each peer and seed the coefficients, or the components, or nothing where the peer failed.
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


def opendp_regression(given, seed):
    """Return slope and intercept of OpenDP's linear regression (Theil and Sen, pure epsilon), of one feature only.

    Its noise takes no seed: runs differ, and no run comes again.
    """
    import opendp.prelude as dp
    from opendp.extras.sklearn.linear_model import LinearRegression

    dp.enable_features("contrib", "floating-point", "idealized-numerics", "honest-but-curious")
    rows, ends = given["rows"], (-float(given["bound"]), float(given["bound"]))

    def of_scale(scale):
        return LinearRegression(dp.max_divergence(), x_bounds=[ends], y_bounds=ends, scale=scale)

    scale = dp.binary_search(
        lambda scale: of_scale(scale).measurement.map(1) <= float(given["epsilon"]), bounds=(1e-3, 1e6)
    )
    model = of_scale(scale).fit(rows[:, :-1], rows[:, -1])
    return np.append(model.coef_, model.intercept_)


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


SECONDS = 60
"""A fit that takes more CPU time has failed, however busy the machine is."""
PATIENCE = 2
"""A peer that failed so often on a table is not asked about it again."""


def _late(*_):
    raise TimeoutError(f"no answer within {SECONDS} CPU seconds")


def _clipped(given):
    rows = given["rows"]
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1, float(given["row_bound"]) / np.maximum(norms, 1e-300))


PEERS = {
    "ibm_regression": ibm_regression,
    "opendp_regression": opendp_regression,
    "ibm_components": ibm_components,
    "opendp_components": opendp_components,
}


def fit_all(given):
    """Return what every peer makes of a table for every seed."""
    found = {}
    for name in given["peers"].tolist():
        fit, failed = PEERS[name], 0
        for seed, learnt in zip(map(int, given["seeds"]), given["learnt"], strict=True):
            if failed >= PATIENCE:
                break
            # Again every second: an error that is raised in a callback of the peer's own library may be lost.
            signal.setitimer(signal.ITIMER_PROF, SECONDS, 1)
            try:
                found[f"{name}_{seed}"] = np.asarray(fit({**given, "rows": given["rows"][learnt]}, seed))
            except Exception as error:
                # What a peer says may be a whole traceback of another one: its last line tells.
                lines = [line for line in str(error).splitlines() if any(map(str.isalnum, line))]
                print(f"{name}, seed {seed}: {lines[-1] if lines else type(error).__name__}", file=sys.stderr)
                failed += 1
            signal.setitimer(signal.ITIMER_PROF, 0)
    return found


def main():
    """Answer each file that is asked about."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _late)
    for asked, answered in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        with np.load(asked, allow_pickle=False) as held:
            np.savez(answered, **fit_all(dict(held)))


if __name__ == "__main__":
    main()
