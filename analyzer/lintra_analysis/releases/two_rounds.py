"""Both rounds of `ron_gauss` as one release, for the analyses that make or judge synthetic rows."""

from dataclasses import dataclass, field, fields
from typing import Self

from lintra_analysis.releases.centred_products import CentredProducts, fit_two_rounds
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.synthetic.model import GaussianModel


@dataclass(frozen=True, eq=False, repr=False)
class TwoRounds(CentredProducts):
    """A second round together with the first.

    Attributes:
        first: release of the first round.
    """

    first: ProjectedSums = field(kw_only=True)

    @classmethod
    def of(cls, first: ProjectedSums, second: CentredProducts) -> Self:
        """Return both as one."""
        return cls(**{own.name: getattr(second, own.name) for own in fields(second)}, first=first)

    def gaussian_model(self) -> GaussianModel:
        """Return the model of both releases.

        Raises:
            InvalidAnalysisError: they do not belong together.
        """
        return fit_two_rounds(self.first, self)
