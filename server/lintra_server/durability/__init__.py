"""A server's state outside its database: private files, the journal, the witness, and secrets that can be destroyed."""
