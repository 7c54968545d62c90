"""Verified reports: servers know that every report is short, and nothing else (docs/explanation/verified.md).

`parameters` has the sizes, `fields` the arithmetic; `padding`, `proof` and `shares` are the client's part, `points`,
`checks` and `verdict` that of the servers.
"""
