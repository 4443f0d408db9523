"""Which `DataLoader`s a program builds, where, and how."""

from __future__ import annotations

import ast
import sys
import weakref
from types import FrameType
from typing import Any

from ...process import frames
from ...process.patching import after, before
from . import sharing
from .settings import batches_of, settings_of

LIVE = 16
"""Of one place so many loaders are kept in sight, the latest ones."""


class Place:
    """The loaders that one call of the user's built.

    `direct` says that the call is that of the loader's class; a library built it
    otherwise, and the call (`trainer.fit(…)`) takes none of a loader's keywords.
    """

    def __init__(self, where: dict[str, Any] | None, direct: bool) -> None:
        self.where = where
        self.direct = direct
        self.keywords = _written_out(where) if where is not None and direct else frozenset()
        self.built = 0
        self.iterated = False
        self.settings: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.dataset: tuple[int, type] | None = None
        self.shared_state: str | None = None
        self.references: list[weakref.ref[Any]] = []

    def took(self, loader: Any) -> None:
        """Count a loader that was built here."""
        self.built += 1
        self.dataset = id(loader.dataset), type(loader.dataset)
        self.settings = settings_of(loader)
        self.references = [one for one in self.references[1 - LIVE :] if one() is not None]
        self.references.append(weakref.ref(loader))

    def loader(self) -> Any:
        """The latest loader of this place that is still there, or None."""
        found = [one for reference in self.references if (one := reference()) is not None]
        return found[-1] if found else None


def watch(loops: Any, module: Any) -> None:
    """Note where loaders are built and which are iterated; `module` is torch's `dataloader`.

    Each loader gets `_trainperf_site`, a site or None.
    """
    loops.loader_places = {}

    def built(loader: Any, *args: Any, **kwargs: Any) -> None:
        _built(loops, loader, kwargs, sys._getframe(2))  # beyond the hook

    def iterated(loader: Any) -> None:
        _iterated(loops, loader)

    cls, process = module.DataLoader, loops.process
    after(process, cls, "__init__", "where a DataLoader is built", built)
    before(process, cls, "_get_iterator", "which DataLoader is iterated", iterated)


def key_of(where: dict[str, Any] | None) -> tuple[Any, ...] | None:
    """The key of a place: file, line and column."""
    return None if where is None else (where["file"], where["line"], where.get("col"))


def _built(loops: Any, loader: Any, kwargs: dict[str, Any], caller: FrameType) -> None:
    frame, _ = frames.users_frame()
    where = frames.site(frame)
    key = key_of(where)
    if key not in loops.loader_places:
        loops.loader_places[key] = Place(where, _is_direct(loader, caller, frame))
    place = loops.loader_places[key]
    given = {name: _plain(value) for name, value in kwargs.items() if name in place.keywords}
    # Past `__setattr__`, which subclasses may have made their own.
    loader.__dict__["_trainperf_site"] = where
    place.given = given
    place.took(loader)


def _iterated(loops: Any, loader: Any) -> None:
    place = loops.loader_places.get(key_of(getattr(loader, "_trainperf_site", None)))
    if place is None or place.iterated:
        return
    place.iterated = True
    place.settings["batches"] = batches_of(loader)
    # Before any item was made: what a dataset opens when first asked, each worker opens.
    place.shared_state = sharing.shared_state(loader.dataset)


def _is_direct(loader: Any, caller: FrameType | None, users: FrameType | None) -> bool:
    """Whether all that stands between the user's call and the loader constructs the loader."""
    while caller is not None and caller is not users:
        if frames.first_argument(caller) is not loader:
            return False
        caller = caller.f_back
    return users is not None


def _written_out(where: dict[str, Any]) -> frozenset[str]:
    """The names of the keywords that stand in a call; those in `**settings` do not."""
    source = "".join(frames.lines_of(where["file"]))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node.lineno != where["line"]:
            continue
        column = frames.characters(where["file"], node.lineno, node.col_offset)
        if column == where.get("col") and node.end_lineno == where.get("end_line"):
            end = frames.characters(where["file"], node.end_lineno or 0, node.end_col_offset or 0)
            if end == where.get("end_col"):
                return frozenset(word.arg for word in node.keywords if word.arg is not None)
    return frozenset()


def _plain(value: Any) -> Any:
    """A value as JSON has it; of what it has not, the name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", None) or type(value).__qualname__
