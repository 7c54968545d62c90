"""The frame of both services: settings, secrets, listeners, answers, health and metrics.

Servers and analyzers do different work, but are set up, watched and stopped in the same way.
"""
