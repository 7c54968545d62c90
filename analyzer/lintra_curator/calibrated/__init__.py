"""Gaussian noise calibrated to what one row can change: outputs, logistic regression, Gaussian processes."""
