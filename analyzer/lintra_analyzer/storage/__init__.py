"""What the analyzer keeps: tasks, jobs, records, keys."""
