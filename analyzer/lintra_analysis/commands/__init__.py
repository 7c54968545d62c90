"""The words of the command that the analyst's library brings: `lintra plan`, `lintra try`, `lintra schema`."""
