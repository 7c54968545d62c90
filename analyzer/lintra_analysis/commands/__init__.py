"""The commands of the analyst's library: `lintra plan`, `lintra try`, `lintra schema`."""
