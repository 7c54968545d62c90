"""Tables that people wrote: the text of a file, and what the cells of each column mean."""
