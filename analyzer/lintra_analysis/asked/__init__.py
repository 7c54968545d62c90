"""What an analyst asks for, and the task that it becomes."""
