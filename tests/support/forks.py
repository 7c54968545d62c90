"""Processes that are forked from one that has imported everything, so that a start costs what the service does."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess

import pytest

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["simulation.on_postgres"])


def forked(function: Callable[..., None], *arguments: object) -> BaseProcess:
    """Start a process that calls a function, and ends with this one at the latest."""
    with pytest.MonkeyPatch.context() as patch:
        # The process that is forked imports from where this one does.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    process = _FORKS.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def log_to(path: str) -> None:
    """Let what this process writes to its standard output and error stand at the end of a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
