"""Sheffet's experiments with redundant columns; `bench_second_moment_figures.py` runs them."""
