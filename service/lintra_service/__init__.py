"""The shell that both services stand in: settings, secrets, listeners, answers, health and metrics.

What a server or an analyzer does is none of its business; how a process is set up, watched and stopped is the same.
"""
