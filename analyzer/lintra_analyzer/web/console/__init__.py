"""The console: pages for people, served at `/`, over the same service that the REST interface uses."""
