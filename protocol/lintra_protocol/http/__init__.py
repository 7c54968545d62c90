"""The HTTP conventions of the services: signed requests and problem documents."""
