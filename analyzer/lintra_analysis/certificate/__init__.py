"""The proof of a release: parties, signatures, privacy, and the repeated computation."""
