"""Files of rows: the columns and their kinds, and the bounds that a rule gives them."""
