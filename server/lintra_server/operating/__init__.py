"""What an operator does to a server: found it, start it, back it up, restore it, look at its health."""
