"""The normal distributions indistinguishability spectrum: exact privacy profiles of Gaussian releases.

From Wei, Lu, Magdon-Ismail, Zikas, "The Normal Distributions Indistinguishability Spectrum" (arXiv 2309.01243, 2023),
whose versions 3 and 4 are cited as v3 and v4. docs/explanation/ndis.md says what is proved and what is only computed.
"""

from lintra_curator.ndis.bounds import renyi_bound, split_bound
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.closed_form import delta_rp, rp_pair, rp_pstar
from lintra_curator.ndis.gaussian_pair import GaussianPair, pair_from_gaussians
from lintra_curator.ndis.least_squares import als_max_loss, delta_als, delta_ols, influences, ols_pair
from lintra_curator.ndis.linear import SketchCertificate, SparseSketch, ltm_certificate
from lintra_curator.ndis.monte_carlo import hoeffding_samples, monte_carlo_delta
from lintra_curator.ndis.profile import PrivacyProfile, pair_profile, privacy_profile
from lintra_curator.ndis.profile_evaluation import delta, epsilon

__all__ = [
    "CertifiedValue",
    "GaussianPair",
    "PrivacyProfile",
    "SketchCertificate",
    "SparseSketch",
    "als_max_loss",
    "delta",
    "delta_als",
    "delta_ols",
    "delta_rp",
    "epsilon",
    "hoeffding_samples",
    "influences",
    "ltm_certificate",
    "monte_carlo_delta",
    "ols_pair",
    "pair_from_gaussians",
    "pair_profile",
    "privacy_profile",
    "renyi_bound",
    "rp_pair",
    "rp_pstar",
    "split_bound",
]
