"""Write the diabetes table of scikit-learn where the regression of RON-Gauss looks for it.

    build/peers/bin/python benchmarks/ron_gauss/diabetes.py

Efron, Hastie, Johnstone, Tibshirani, "Least angle regression" (Annals of Statistics, 2004), 442 rows of ten columns. It
is not shipped here, since its authors state no licence; scikit-learn has a copy. Nothing of Lintra is imported.
"""

import importlib
from pathlib import Path

import numpy as np

PLACE = Path(__file__).resolve().parents[2] / "build" / "diabetes.npz"


def main():
    """Write rows and target as they are, unscaled."""
    held = importlib.import_module("sklearn.datasets").load_diabetes(scaled=False)
    PLACE.parent.mkdir(exist_ok=True)
    np.savez_compressed(PLACE, X=held.data, y=held.target)


if __name__ == "__main__":
    main()
