"""Recomputes a verdict of the servers without trusting any of them."""
