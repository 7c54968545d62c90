"""Exact audits of a release from its public matrix, by other routes than the service takes."""
