"""Names of the calls of a PyTorch step in a report."""

from __future__ import annotations

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
