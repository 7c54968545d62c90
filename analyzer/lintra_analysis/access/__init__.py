"""Getting at releases: from a running analyzer over REST, or from files that were downloaded."""
