"""What only a paper needs, for comparison: published constants and algorithms that nobody should use."""
