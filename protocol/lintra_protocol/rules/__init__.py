"""What servers and the analyzer check before anything is released."""
