"""The normal distributions indistinguishability spectrum: exact privacy profiles of Gaussian releases.

From Wei, Lu, Magdon-Ismail, Zikas, "The Normal Distributions Indistinguishability Spectrum" (2023). docs/ndis.md says
what is proved and what is only computed.
"""

from lintra_analyzer.ndis.bounds import renyi_bound, split_bound
from lintra_analyzer.ndis.certified import Certified
from lintra_analyzer.ndis.closed import delta_rp, rp_pair, rp_pstar
from lintra_analyzer.ndis.pair import Pair, pair_from_gaussians
from lintra_analyzer.ndis.profile import delta, epsilon

__all__ = [
    "Certified",
    "Pair",
    "delta",
    "delta_rp",
    "epsilon",
    "pair_from_gaussians",
    "renyi_bound",
    "rp_pair",
    "rp_pstar",
    "split_bound",
]
