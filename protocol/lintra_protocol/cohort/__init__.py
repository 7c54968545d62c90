"""Sets of reports: their identifiers, roots, proofs and differences."""
