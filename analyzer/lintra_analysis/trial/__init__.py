"""Trials of the whole protocol on one's own table in one process, and forecasts of what a collection would tell.

The package is also the function `trial` of `frame`: `lintra_analysis.trial(frame, "y")`.
"""

import sys
from types import ModuleType


class _Trials(ModuleType):
    """A package that can be called, since the public function has its name."""

    def __call__(self, *args: object, **options: object) -> object:
        from lintra_analysis.trial.frame import trial

        return trial(*args, **options)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _Trials
