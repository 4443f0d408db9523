"""Functions of the user's process that are replaced, and put back."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

from .writers import device


class Changes:
    """Attributes put in place of others; `undo` puts all back."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute that is there; one that is not (another version) is left."""
        if name in vars(owner):
            self._before.append((owner, name, vars(owner)[name]))
            setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in place of a function, looking like it."""
        if name in vars(owner):
            original = vars(owner)[name]
            wrapper: Any = functools.wraps(original)(make(original))
            wrapper._trainperf_original = original
            self.put(owner, name, wrapper)

    def undo(self) -> None:
        """Leave everything as it was."""
        while self._before:
            owner, name, value = self._before.pop()
            setattr(owner, name, value)


def mend_renames(guarded: Iterable[str], changes: Changes) -> None:
    """Let folders that were there before be renamed inside a copy-on-write view.

    For an ordinary user the kernel refuses that, as across file systems; a copy does it.
    """
    devices = {device(path) for path in guarded} - {None}

    def make(original: Any) -> Any:
        def rename(src: Any, dst: Any, **kwargs: Any) -> None:
            try:
                original(src, dst, **kwargs)
                return
            except OSError as error:
                if error.errno != errno.EXDEV or kwargs or not _ours(devices, src, dst):
                    raise
            import shutil

            if os.path.isdir(dst):
                os.rmdir(dst)
            shutil.copytree(src, dst, symlinks=True)
            shutil.rmtree(src)

        return rename

    if devices:
        changes.wrap(os, "rename", make)
        changes.wrap(os, "replace", make)


def _ours(devices: set[int | None], src: Any, dst: Any) -> bool:
    """Whether both are folders' names in the same view."""
    if os.path.islink(src) or not os.path.isdir(src):
        return False
    parents = {device(os.path.dirname(os.path.abspath(os.fsdecode(one)))) for one in (src, dst)}
    return len(parents) == 1 and parents <= devices
