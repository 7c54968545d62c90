"""Baselines and tables of RON-Gauss; `bench_ron_gauss_figures.py` shows them."""
