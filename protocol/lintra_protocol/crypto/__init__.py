"""Arithmetic of shares, randomness, sharing, encryption, signatures and admission tokens."""
