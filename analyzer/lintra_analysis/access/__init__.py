"""Access to releases: from a running analyzer over REST, or from downloaded files."""
