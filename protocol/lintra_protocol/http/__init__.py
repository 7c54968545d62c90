"""What the services agree on about HTTP: signed requests and problem documents."""
