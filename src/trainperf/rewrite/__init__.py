"""Edits of the user's source: asked for at sites, made together, shown as one diff."""

from trainperf.errors import CannotRewrite
from trainperf.rewrite.script import Script, default_reader

__all__ = [
    "CannotRewrite",
    "Script",
    "default_reader",
]
