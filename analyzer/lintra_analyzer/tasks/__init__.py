"""The life of a task at the analyzer: registration, jobs, releases."""
