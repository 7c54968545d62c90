"""From a row to sealed reports at every server."""
