"""The commands of `lintra client`."""
