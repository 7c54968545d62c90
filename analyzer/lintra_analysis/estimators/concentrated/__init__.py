"""Confidence sets that hold whatever the data: the noise's own distance from what it would have to be."""
