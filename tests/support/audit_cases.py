"""The standard cases of the audits by name: calibrating them takes more than a second, once for all who run them."""

import numpy as np

from lintra_audit.release.cases import standard_cases
from lintra_audit.release.run import far_reports
from lintra_audit.trials.audit_case import Case

STANDARD = {case.name: case for case in standard_cases()}
CASES = {name: case for name, case in STANDARD.items() if not name.startswith("organisations-")}
ORGANISATIONS = {name: case for name, case in STANDARD.items() if name not in CASES}


def reached(case: Case) -> float:
    """Return the squared distance of the audit's two rows as a part of what the claim allows, 1 but for rounding."""
    measurement = case.task.measurement
    noised = slice(measurement.layout.num_noised)
    worlds = [reports[0][noised].astype(np.float64) for reports in far_reports(case, 0)]
    scaled = (worlds[1] - worlds[0]) * measurement.mechanism.sigma / measurement.layout.sigmas[noised]
    return float(scaled @ scaled) / float(measurement.squared_distance)
