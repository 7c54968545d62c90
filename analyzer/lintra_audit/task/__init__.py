"""Audits of tasks: the worst pair of neighbours of a given task, told apart exactly."""
