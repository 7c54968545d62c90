"""Audits that can fail: the real pipeline, run many times on worst-case neighbours, against its own claim.

docs/explanation/audit.md says what a pass means, what it does not mean, and which planted faults are caught.
"""
