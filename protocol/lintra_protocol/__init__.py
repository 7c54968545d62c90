"""What the clients, the servers and the analyzer of one collection must agree on.

Everything here is a pure function of its arguments: no network, no disk, no clock, no global state, and
randomness is an argument. Start with `ideal`: the whole protocol in one process, on one page.
"""

__version__ = "0.1.0"
