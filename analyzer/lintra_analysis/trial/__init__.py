"""Trials of the whole protocol on one's own table in one process, and forecasts of what a collection would tell."""
