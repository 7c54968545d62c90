"""Synthetic rows: from released sums to a model, from the model to as many rows as one likes, and their error."""
