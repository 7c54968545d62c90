"""Tables of public data, and how far synthetic rows are from them; `bench_synthetic_race.py`."""
