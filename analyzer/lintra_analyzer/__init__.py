"""The analyst's service: it creates tasks, adds up what the servers release, and answers questions about it."""
