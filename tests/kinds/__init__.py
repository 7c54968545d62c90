"""What the conformance tests know of each kind of mechanism: one module a kind, found by its name."""
