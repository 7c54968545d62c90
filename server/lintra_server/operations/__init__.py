"""What an operator does with a server: initialise, start, back up, restore, verify, and look at its health."""
