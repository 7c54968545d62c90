"""RON-Gauss for a curator who holds the rows."""
