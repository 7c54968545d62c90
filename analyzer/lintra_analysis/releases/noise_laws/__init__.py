"""The laws of the error of an estimated second moment, one module for each."""
