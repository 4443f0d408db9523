"""Edits of the user's source: asked for at sites, made together, shown as one diff."""

from trainperf.errors import CannotRewrite
from trainperf.rewrite.patch import Written, added_lines, build_patch, write_edits
from trainperf.rewrite.script import Script, default_reader

__all__ = [
    "CannotRewrite",
    "Script",
    "Written",
    "added_lines",
    "build_patch",
    "default_reader",
    "write_edits",
]
