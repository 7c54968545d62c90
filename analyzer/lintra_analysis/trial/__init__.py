"""Trying the whole protocol on one's own table, in one process: what a collection of such rows would tell."""
