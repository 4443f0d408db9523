"""Lines beside a report, and a standard output that takes no more: closed, or the disk full."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from trainperf.report.plain import no_commands, one_line


def tell(text: str, err: bool = True) -> None:
    """Print a line: whatever is quoted in it stays within it, and does nothing there."""
    click.echo(no_commands(one_line(text)), err=err)


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
