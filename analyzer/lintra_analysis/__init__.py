"""The analyst's library: open a release, estimate from it, draw synthetic rows."""
