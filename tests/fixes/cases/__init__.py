"""The cases of the fixes: a module for each, in the folder of its family.

`silent` and `fires` are evidence in which `detect` must not, and must, find it; `tries_not` and
`tries` likewise evidence in which `possible` must have nothing to try, and something, where
`detect` found nothing. `examples` are rewrites, source before and after.
"""

from importlib import import_module
from typing import Any

from trainperf.fixes import Fix, by_id

KINDS = ("silent", "fires", "tries_not", "tries", "examples")


def of(fix: Fix | str, kind: str) -> list[Any]:
    """The cases of a fix, of one of `KINDS`."""
    known = by_id()[fix] if isinstance(fix, str) else fix
    assert kind in KINDS
    module = type(known).__module__.replace("trainperf.fixes", "fixes.cases")
    return getattr(import_module(module), kind, [])
