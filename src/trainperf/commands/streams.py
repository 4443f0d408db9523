"""Standard output that takes no more: nobody reads on, or the disk is full."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def close_stdout() -> None:
    """Flush stdout; from here on what is printed goes nowhere, where that cannot be done.

    Raises `OSError`, not `BrokenPipeError`: who closed the pipe has read all that was wanted.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        silence()
        if not isinstance(error, BrokenPipeError):
            raise


def silence() -> None:
    """Have what is printed go nowhere: the pipe is closed, or the disk is full."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
