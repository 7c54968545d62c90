"""What a task would cost and give, before anybody is asked for data."""
