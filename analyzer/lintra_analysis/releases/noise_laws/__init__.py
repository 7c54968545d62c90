"""How far an estimated second moment may be off, and why: one module for each law of its error."""
