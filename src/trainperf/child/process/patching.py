"""Put functions of ours in place of others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(original)` in place of `owner.name`, looking like the original.

    `functools.wraps` also keeps `__module__`, by which AutoGraph knows library code.
    """
    original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    wrapper: Any = functools.wraps(original)(make(original))
    wrapper._trainperf_original = original
    setattr(owner, name, wrapper)


def undo(owner: Any, name: str) -> None:
    """Take a `replace` back."""
    current = owner.__dict__.get(name)
    original = getattr(current, "_trainperf_original", None)
    if original is not None:
        setattr(owner, name, original)
