"""The race against what people would use instead; `bench_peers.py` runs it."""
