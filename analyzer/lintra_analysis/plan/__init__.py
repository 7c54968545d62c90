"""`lintra plan`: what a claim costs in noise and bytes, before any data (docs/how-to/planning.md)."""
