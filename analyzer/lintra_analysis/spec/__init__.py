"""From the specification of an analyst to an immutable task."""
