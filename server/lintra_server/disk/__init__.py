"""What a server keeps outside its database: private files, the journal, the witness, secrets that can be destroyed."""
