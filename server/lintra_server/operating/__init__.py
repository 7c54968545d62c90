"""The operation of a server: founding, starting, backup, restoring, and health."""
