"""The life of a task's reports: registered, received, counted, frozen, added up and released once, destroyed."""
