"""What proves a release: parties, signatures, privacy, and the computation repeated."""
