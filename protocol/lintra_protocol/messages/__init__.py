"""What clients, servers and the analyzer sign and send."""
