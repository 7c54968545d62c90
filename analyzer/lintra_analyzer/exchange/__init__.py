"""The exchange with the servers: inventories, cohorts, sketch shares, and what they add up to."""
