"""What `bench_scale.py` measures: a module for each part of the house, a function for each row of the table."""
