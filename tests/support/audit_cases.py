"""The standard cases of the audits by name: calibrating them takes more than a second, once for all who run them."""

import numpy as np

from lintra_audit.release.cases import standard_cases
from lintra_audit.release.run import far_reports
from lintra_audit.trials.audit_case import Case
from support.measured import measurement_of, noise_sigmas

STANDARD = {case.name: case for case in standard_cases()}
CASES = {name: case for name, case in STANDARD.items() if not name.startswith("organisations-")}
ORGANISATIONS = {name: case for name, case in STANDARD.items() if name not in CASES}


def reached(case: Case) -> float:
    """Return the squared distance of the audit's two rows as a part of what the claim allows, 1 but for rounding."""
    mechanism = case.task.mechanism
    worlds = [reports[0].astype(np.float64) for reports in far_reports(case, 0)]
    scaled = (worlds[1] - worlds[0]) * mechanism.sigma / noise_sigmas(mechanism, case.task.num_columns)
    return float(scaled @ scaled) / float(
        measurement_of(mechanism, case.task.num_columns, case.task.claim).squared_distance
    )
