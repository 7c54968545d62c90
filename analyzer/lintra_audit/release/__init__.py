"""Audits of releases: run the protocol many times on two neighbours and tell their releases apart."""
