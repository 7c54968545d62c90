"""One peer's part of the race: fit a table of cells, write as many synthetic rows, or score rows by boosted trees.

Runs in an environment of its own, with the package `dpmm` (and the scikit-learn that it brings), which is never a
dependency of Lintra; `bench_synthetic_race.py` starts it and says how to install it. Nothing of Lintra is imported.

    python benchmarks/race_peer.py fit in.npz out.npz      # in: cells, sizes, method, epsilon, delta, seed, num_rows
    python benchmarks/race_peer.py trees in.npz out.npz    # in: train, target, test, truth, classify
"""

import importlib
import sys
import time

import numpy as np
import numpy.typing as npt

Given = dict[str, npt.NDArray[np.generic]]


def fit(given: Given, target: str) -> None:
    """Fit `mst` or `aim` to integers below `sizes`, domains given, and write `cells` of the synthetic rows.

    Beside them stand the CPU `seconds` of fitting and drawing.
    """
    pandas = importlib.import_module("pandas")
    method = str(given["method"])
    names = [f"c{number:02d}" for number in range(given["cells"].shape[1])]
    sizes = [int(size) for size in given["sizes"]]
    frame = pandas.DataFrame({name: given["cells"][:, i].astype(int) for i, name in enumerate(names)})
    module = importlib.import_module(f"dpmm.models.{method}")
    options = {
        "epsilon": float(given["epsilon"]),
        "delta": float(given["delta"]),
        "n_jobs": 1,
        "max_model_size": int(given["model_size"]),
        "n_iters": int(given["iterations"]),
    }
    started = time.process_time()
    model = getattr(module, f"{method.upper()}GM")(**options)
    model.set_random_state(np.random.RandomState(int(given["seed"])))
    model.set_domain(dict(zip(names, sizes, strict=True)))
    model.fit(frame)
    found = model.generate(n_records=int(given["num_rows"]))
    seconds = time.process_time() - started
    np.savez(target, cells=found[names].to_numpy().astype(np.int64), seconds=seconds)


def trees(given: Given, target: str) -> None:
    """Write R2, or accuracy, of scikit-learn's histogram gradient boosting at its defaults on the test rows."""
    ensemble = importlib.import_module("sklearn.ensemble")
    chosen = "HistGradientBoostingClassifier" if bool(given["classify"]) else "HistGradientBoostingRegressor"
    if bool(given["classify"]) and len(np.unique(given["target"])) < 2:
        np.savez(target, score=float((given["truth"] == given["target"][0]).mean()))
        return
    model = getattr(ensemble, chosen)(random_state=0).fit(given["train"], given["target"])
    np.savez(target, score=float(model.score(given["test"], given["truth"])))


if __name__ == "__main__":
    with np.load(sys.argv[2], allow_pickle=False) as loaded:
        {"fit": fit, "trees": trees}[sys.argv[1]](dict(loaded), sys.argv[3])
