"""From the released integers of a mechanism to a release: one module a kind."""
