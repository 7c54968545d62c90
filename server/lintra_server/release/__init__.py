"""From a closed batch to its release: the gate, the census, the verification round and proofs of inclusion."""
