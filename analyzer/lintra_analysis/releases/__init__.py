"""Releases as data: columns, sums, sketches, second moments, joint sums, and the laws of their noise."""
