"""What happens to a task's reports: registered, taken in, counted, frozen, added up and released once, destroyed."""
