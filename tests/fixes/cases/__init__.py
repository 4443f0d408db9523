"""The cases of the fixes, and of the lint rules: a module for each, in the folder of its family.

`silent` and `fires` are evidence in which `detect` must not, and must, find it; `tries_not` and
`tries` likewise evidence in which `possible` must have nothing to try, and something, where
`detect` found nothing. `examples` are rewrites, source before and after. Of a lint rule `silent`
and `fires` are sources, indented as they stand, in which it must not, and must, remark.
"""

from importlib import import_module
from typing import Any

from trainperf.fixes import Fix, by_id
from trainperf.source.rule import Rule

KINDS = ("silent", "fires", "tries_not", "tries", "examples")


def of(owner: Fix | Rule | str, kind: str) -> list[Any]:
    """The cases of a fix, or of a lint rule, of one of `KINDS`."""
    known = by_id()[owner] if isinstance(owner, str) else owner
    assert kind in KINDS
    module = type(known).__module__.replace("trainperf.fixes", "fixes.cases")
    return getattr(import_module(module), kind, [])
