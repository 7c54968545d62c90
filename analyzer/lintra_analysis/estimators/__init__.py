"""Estimators: post-processing of a release, free of privacy cost, each with its error."""
