"""A file of rows that somebody has: its columns and their kinds, and the bounds that a rule gives them."""
