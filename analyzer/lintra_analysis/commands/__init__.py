"""The commands of the analyst's library: `lintra plan`, `lintra trial`, `lintra schema`."""
