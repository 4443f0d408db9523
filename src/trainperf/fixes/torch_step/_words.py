"""Names of the calls of a PyTorch step in a report."""

from __future__ import annotations

from collections.abc import Iterable

from trainperf.model import LogCall

METHODS = ("item", "tolist", "numpy", "cpu", "to", "cuda")
CONVERSIONS = ("bool", "float", "int")
OTHERS = {"index": "an index", "format": "format", "print": "print"}


def call(what: str) -> str:
    """Write a call that waits for the device as a reader knows it: ".item()", "float()"."""
    if what in METHODS:
        return f".{what}()"
    if what in CONVERSIONS:
        return f"{what}()"
    return OTHERS.get(what, what)


def unsent(logs: Iterable[LogCall]) -> str:
    """Say that sending was not timed, as trackers are kept off the network; "" if none sends."""
    names = sorted({log.unsent for log in logs} - {""})
    were = "was" if len(names) == 1 else "were"
    offline = f"{' and '.join(names)} {were} kept offline: what sending takes was not measured."
    return offline if names else ""
