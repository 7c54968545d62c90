"""Private second moments for a curator who holds the rows: Gaussian, projection and Wishart noise."""
