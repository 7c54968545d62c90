"""From an uploaded report to a stored one: decryption, admission, the write queue, and the steps of its batch."""
