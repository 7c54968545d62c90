"""How documents and values become bytes."""
