"""A released gradient and Hessian of a logistic regression at a public parameter: one noisy Newton step."""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.checks import check_noise_sd, checked_shape
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.row_count import RowCount
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class NewtonSums:
    """The noisy sums of residual times row and of weight times the row's products, in normalised units."""

    columns: tuple[ScaledColumn, ...]  #: the constant, named "(intercept)", then the features; p of them
    target: ScaledColumn  #: what is explained
    parameter: FloatArray  #: b, at which the sums were taken, shape `(p,)`
    gradient: FloatArray  #: sum of q r x', shape `(p,)`
    hessian: FloatArray  #: sum of q w x' x'^T, shape `(p, p)`
    gradient_sd: float  #: sd of the noise in an entry of the gradient
    hessian_sd: float  #: sd off the Hessian's diagonal, sqrt(2) times as much on it
    num_clients: int  #: rows
    row_bound: float  #: the norm beyond which a row counts less
    constant: float  #: c0, the number before every row
    rounds: int = 1  #: K, the most rounds of the chain
    persons: bool = False  #: whether a person may have several rows
    clipped: ClippedRows | None = None  #: how many rows a column's bounds changed; None if nobody counted
    counted: RowCount | None = None  #: how many rows there are, if organisations count them with noise
    before: "NewtonSums | None" = None  #: the round before, if its release is at hand

    def __post_init__(self) -> None:
        size = len(self.columns)
        for array, shape in ((self.parameter, (size,)), (self.gradient, (size,)), (self.hessian, (size, size))):
            checked_shape(array, shape)
        check_noise_sd(self.gradient_sd)
        check_noise_sd(self.hessian_sd)

    def __repr__(self) -> str:
        return f"NewtonSums(columns={len(self.columns)}, target={self.target.name!r}, num_clients={self.num_clients})"

    @property
    def is_start(self) -> bool:
        """Return whether these are the sums at the parameter 0."""
        return not self.parameter.any()

    @property
    def chain(self) -> "tuple[NewtonSums, ...]":
        """Return all rounds up to this one that are at hand, the first of them first."""
        return (self,) if self.before is None else (*self.before.chain, self)

    def table(self) -> tuple[list[str], FloatArray]:
        """Return the parameter, the gradient and the Hessian as lines, shape `(p + 2, p)`."""
        lines: FloatArray = np.vstack([self.parameter, self.gradient, self.hessian])
        return [column.name for column in self.columns], lines
