"""Inside the user's process: standard library only at start, and never an exception.

Loaded by `bootstrap/sitecustomize.py` under the name `_trainperf_child`, by file,
because the user's interpreter need not be able to import trainperf.
"""

from __future__ import annotations

import os


def start() -> None:
    """Begin to observe this process as the run file in `TRAINPERF_RUN` asks."""
    from .process import observer

    observer.start(os.environ["TRAINPERF_RUN"])
