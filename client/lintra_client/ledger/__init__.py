"""The record of what a device has answered and spent, and the sealed reports that are still to be delivered."""
