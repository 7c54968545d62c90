"""The database, every change of a batch's state, and the two folders that a server stands on."""
