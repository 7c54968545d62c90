"""The public matrices: `osnap` (sparse signed sketches) and `ones` (the plain sum)."""
