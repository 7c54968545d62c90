"""The library's clients: of one row, of many, and for programs that block."""
