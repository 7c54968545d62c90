"""Audits of Gaussian outputs: how well two given laws can be told apart."""
