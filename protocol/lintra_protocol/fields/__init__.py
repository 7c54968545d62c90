"""Parts of a task: columns, windows, organisations and missing reports."""
