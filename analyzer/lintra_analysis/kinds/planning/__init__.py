"""What a promise costs before anybody is asked for data: `lintra plan`, one module a kind (docs/how-to/planning.md)."""
