"""The audits of each mechanism: one module for each kind, looked up by name (`lintra_audit.kinds.kind_audit`)."""
