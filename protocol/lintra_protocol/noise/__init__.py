"""Clipping of rows and sampling of noise."""
