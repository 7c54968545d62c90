"""Synthetic rows: a model of released sums, any number of rows drawn from it, and their errors."""
