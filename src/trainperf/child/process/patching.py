"""Put functions of ours in place of others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(original)` in place of `owner.name`, looking like the original.

    What a class inherits is replaced for it and its subclasses alone.

    `functools.wraps` also keeps `__module__`, by which AutoGraph knows library code. The
    signature is given as well: `inspect.getfullargspec`, by which Keras names the arguments that
    it was given, does not look behind a wrapper.
    """
    own = isinstance(owner, type) and name in owner.__dict__
    original = owner.__dict__[name] if own else getattr(owner, name)
    wrapper: Any = functools.wraps(original)(make(original))
    wrapper._trainperf_original = original
    with suppress(TypeError, ValueError):  # of functions written in C
        wrapper.__signature__ = inspect.signature(original)
    setattr(owner, name, wrapper)


def undo(owner: Any, name: str) -> None:
    """Take a `replace` back."""
    current = owner.__dict__.get(name)
    original = getattr(current, "_trainperf_original", None)
    if original is not None:
        setattr(owner, name, original)
