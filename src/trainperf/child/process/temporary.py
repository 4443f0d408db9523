"""Files that a process removes itself, and cannot where it is stopped: trainperf does then."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .recorder import Recorder

TEMPORARY = "__autograph_generated_file"
"""Begins the names of modules that AutoGraph keeps in temporary files until exit."""

MAKERS = {"mkdtemp": lambda made: made, "_mkstemp_inner": lambda made: made[1]}
"""Functions of `tempfile`, and where the path is in what they return."""
MOST = 1000
"""So many paths of a process are followed: a loader may make one for each item."""


class Temporary:
    """Records temporary files and folders of this process as they come."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._modules: set[str] = set()
        self._folders: list[str] = []
        self._made = 0

    def hook(self, tempfile: ModuleType, seconds: float) -> None:
        """Name at once what is made in the temporary folder: to be stopped in a save is usual.

        What a script puts elsewhere is its own.
        """
        for name, path in MAKERS.items():
            maker = getattr(tempfile, name, None)
            if maker is not None:
                setattr(tempfile, name, self._named(maker, path, tempfile))

    def _named(
        self, maker: Callable[..., Any], path: Callable[[Any], Any], tempfile: Any
    ) -> Callable[..., Any]:
        @functools.wraps(maker)
        def made(*args: Any, **kwargs: Any) -> Any:
            result = maker(*args, **kwargs)
            name = os.fsdecode(path(result))
            if self._made < MOST and os.path.dirname(name) == tempfile.gettempdir():
                self._made += 1
                self._record.write("made", name=name)
                self._record.flush()
            return result

        return made

    def record(self) -> None:
        """Name those that are new; cheap where there are none."""
        new = [
            name
            for name in list(sys.modules)
            if name.startswith(TEMPORARY) and name not in self._modules
        ]
        files = [getattr(sys.modules.get(name), "__file__", None) for name in new]
        self._modules.update(new)
        if files:
            self._record.write("temporary", files=[file for file in files if file])
        folders = _folders()
        if folders != self._folders:
            self._folders = folders
            self._record.write("folders", names=folders)
            self._record.flush()


def _folders() -> list[str]:
    """The folders that Python would remove at exit: `TemporaryDirectory`, multiprocessing's."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is None:
        return []
    import weakref

    process = sys.modules.get("multiprocessing.process")
    config = getattr(process.current_process(), "_config", {}) if process else {}
    sockets = [config["tempdir"]] if config.get("tempdir") else []

    cleanup = tempfile.TemporaryDirectory._cleanup.__func__
    registry = dict(getattr(weakref.finalize, "_registry", {}))
    return sorted(
        sockets
        + [
            info.args[0]
            for info in registry.values()
            if getattr(info.func, "__func__", None) is cleanup and info.args
        ]
    )
