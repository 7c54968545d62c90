"""The analyzer's storage: tasks, jobs, records, keys."""
