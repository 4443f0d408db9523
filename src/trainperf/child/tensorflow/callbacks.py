"""Where the user's own source defines the hooks of a Keras callback."""

from __future__ import annotations

from typing import Any

from ..process import frames

OLDER = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}
"""Older names of the hooks, which Keras's own call."""


def definitions(cls: type) -> dict[str, dict[str, Any]]:
    """Where the user's own source defines a callback's hooks per batch, by hook."""
    found = {}
    for name, older in OLDER.items():
        for each in (name, older):
            code = getattr(getattr(cls, each, None), "__code__", None)
            # a decorator's inner function has another name, and takes other arguments
            if code is not None and code.co_name == each and frames.is_users(code.co_filename):
                found[name] = frames.definition(code)
                break
    return found
