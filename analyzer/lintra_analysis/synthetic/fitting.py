"""The two models that test the use of synthetic rows: logistic and ridge regression."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from lintra_protocol.crypto.ring import FloatArray, IntArray

PENALTY = 1.0
"""Weight of half the squared coefficients beside the sum of losses over all rows; columns are standardised."""


@dataclass(frozen=True, eq=False)
class Standard:
    """A linear map that gives each column mean 0 and deviation 1; a constant column becomes 0."""

    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> "Standard":
        """Return the map for rows of shape `(n, d)`."""
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(deviation > 1e-12, deviation, np.inf))

    def design(self, rows: FloatArray) -> FloatArray:
        """Return standardised rows with a last column of ones, shape `(n, d + 1)`."""
        return np.column_stack([(rows - self.center) / self.scale, np.ones(len(rows))])


def logistic_accuracy(train: tuple[FloatArray, IntArray], test: tuple[FloatArray, IntArray], num_classes: int) -> float:
    """Return the share of test rows whose class a logistic regression on the training rows finds.

    `train` holds rows of shape `(n, d)`, classes of shape `(n,)` below `num_classes`; `num_classes` is K.
    """
    standard = Standard.of(train[0])
    design, targets = standard.design(train[0]), np.eye(num_classes)[train[1]]
    size = design.shape[1]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(size, num_classes)
        scores = design @ weights
        penalised = weights[:-1]
        value = -float((targets * log_softmax(scores, axis=1)).sum()) + PENALTY * float((penalised**2).sum()) / 2
        slope = design.T @ (softmax(scores, axis=1) - targets)
        slope[:-1] += PENALTY * penalised
        return value, slope.ravel()

    # Here, because it takes a while to import and whoever starts a service waits for that.
    from scipy.optimize import minimize

    found = minimize(loss, np.zeros(size * num_classes), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    chosen = np.argmax(standard.design(test[0]) @ found.x.reshape(size, num_classes), axis=1)
    return float((chosen == test[1]).mean())


def ridge_error(train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray]) -> float:
    """Return the root mean squared error of a ridge regression; rows have shape `(n, d)`, what they explain `(n,)`."""
    standard = Standard.of(train[0])
    design = standard.design(train[0])
    penalty = PENALTY * np.eye(design.shape[1])
    penalty[-1, -1] = 0.0
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ train[1])
    return float(np.sqrt(np.mean((standard.design(test[0]) @ weights - test[1]) ** 2)))
