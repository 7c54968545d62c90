"""What each mechanism brings to the audits; one module a kind, found by its name (`lintra_audit.kinds.kind_audit`)."""
