"""The standard cases of the audits by name: calibrating them takes more than a second, once for all who run them."""

from lintra_audit.release.cases import standard_cases

CASES = {case.name: case for case in standard_cases()}
