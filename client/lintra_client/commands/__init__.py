"""The words of `lintra client` on a command line."""
