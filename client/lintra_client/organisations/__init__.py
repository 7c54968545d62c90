"""What an organisation contributes: its table of rows, and one report of all of them."""
