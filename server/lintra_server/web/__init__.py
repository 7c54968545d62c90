"""The server over HTTP: uploads, the control plane, and the operators' port."""
