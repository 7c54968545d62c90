"""One report: its shares, their encryption, and their form on the wire."""
