"""Sums of wide rows with their projections, and flights as such rows; `bench_wide.py`."""
