"""The parts of bench_coverage.py: tables, cohorts made of them, and what is counted over many releases of one."""
