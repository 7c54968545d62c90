"""Least squares of rows that a curator holds, private by themselves or with noise."""
