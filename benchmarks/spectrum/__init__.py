"""Utility and figures of the two NDIS papers in the measures of their authors' program; `bench_ndis_figures.py`."""
