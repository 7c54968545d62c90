"""Mechanisms for a trusted curator who holds the rows: exact privacy curves, calibration, releases."""
