"""Daemons that carry no mark: a sleep of so many seconds, told by that number alone."""

from __future__ import annotations

import itertools
import os
import time

import psutil

from observing import LONG_S

HIDES = """
import subprocess, time
subprocess.Popen(["setsid", "-f", "sleep", "{seconds}"], env={{}})
print("ready", flush=True)
{then}
"""
_NUMBERS = itertools.count(1)


def unique() -> str:
    """A number of seconds that nobody else sleeps: this process's, and another each time."""
    return f"1{next(_NUMBERS):03d}.{os.getpid()}"


def sleeping(seconds: str) -> list[psutil.Process]:
    """Processes that sleep so long."""
    return [
        one
        for one in psutil.process_iter(["cmdline", "status"])
        if one.info["cmdline"] == ["sleep", seconds] and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


def ended(seconds: str) -> bool:
    """Whether nobody sleeps so long any more, after a while."""
    until = time.monotonic() + LONG_S
    while sleeping(seconds) and time.monotonic() < until:
        time.sleep(0.05)
    return not sleeping(seconds)


def kill_sleeping(seconds: str) -> None:
    """Kill who sleeps so long, as a test does at its end."""
    for one in sleeping(seconds):
        one.kill()
