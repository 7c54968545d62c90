"""From the integers of one mechanism to a release: one module a kind."""
