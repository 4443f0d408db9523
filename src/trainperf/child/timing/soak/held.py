"""The user's names, and how much each of them holds: items, elements, a chain of results."""

from __future__ import annotations

import os
import sys
from collections import deque
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ...process import frames

CONTAINERS = (list, dict, set, deque)
ARRAYS = ("numpy", "torch", "tensorflow")
DEEPEST = 3
MOST = 5000
"""Values that one look goes through at most."""
FEW = 64
"""A container of so many items is looked into: dictionaries of lists, lists of callbacks."""

CONTAINER, ARRAY, GRAPH = "container", "array", "graph"


@dataclass(frozen=True)
class Scope:
    """Where a name is to be looked up in the source: a file, lines of it, a class."""

    file: str
    first: int = 0
    last: int = sys.maxsize
    cls: str = ""


@dataclass(frozen=True)
class Held:
    """Something held by a name, as the source writes it in its scope.

    `item` is the type of its last item; `graph` says that it was computed from parameters, and
    keeps all that came before it.
    """

    kind: str
    name: str
    scope: Scope
    size: int
    item: str = ""
    graph: bool = False

    @property
    def key(self) -> tuple[str, str, Scope]:
        """It, at any moment."""
        return self.kind, self.name, self.scope


def held(frame: FrameType | None) -> dict[tuple[str, str, Scope], Held]:
    """All that the user's frames, and callbacks, hold by a name, from `frame` outward."""
    search = _Search()
    while frame is not None:
        if frames.is_users(frame.f_code.co_filename):
            search.frame(frame)
        else:
            search.callbacks(frame.f_locals.get("callbacks"))
        frame = frame.f_back
    return {one.key: one for one in search.found}


class _Search:
    """A walk over names, from frames into objects of the user's own classes."""

    def __init__(self) -> None:
        self.found: list[Held] = []
        self._seen: set[int] = set()

    def frame(self, frame: FrameType) -> None:
        code = frame.f_code
        path = os.path.abspath(code.co_filename)
        if frame.f_locals is not frame.f_globals:
            last = max((line for _, _, line in code.co_lines() if line), default=0)
            self._names(frame.f_locals, Scope(path, code.co_firstlineno, last))
        own = frame.f_globals.get("__file__")
        if own is None or os.path.abspath(own) == path:
            self._names(frame.f_globals, Scope(path))

    def callbacks(self, given: Any) -> None:
        """Look at the user's callbacks in a library's loop, which no name of theirs may hold."""
        found = getattr(given, "callbacks", given)
        for one in found if isinstance(found, list | tuple) else ():
            if _is_users(type(one)):
                self._object(one, 0)

    def _names(self, names: dict[str, Any], scope: Scope) -> None:
        for name, value in list(names.items()):
            if not name.startswith("__"):
                self._value(name, value, scope, 0)

    def _value(self, name: str, value: Any, scope: Scope, depth: int) -> None:
        if depth > DEEPEST or len(self._seen) > MOST or id(value) in self._seen:
            return
        if isinstance(value, str | bytes | int | float | type(None)):
            return
        self._seen.add(id(value))
        if isinstance(value, CONTAINERS):
            self._container(name, value, scope, depth)
        elif type(value).__module__.partition(".")[0] in ARRAYS and hasattr(value, "shape"):
            self._array(name, value, scope)
        else:
            self._object(value, depth)

    def _container(self, name: str, value: Any, scope: Scope, depth: int) -> None:
        last = _last(value)
        graph = any(_computed(one) for one in (last if isinstance(last, tuple) else (last,)))
        item = "" if last is None else type(last).__name__
        self.found.append(Held(CONTAINER, name, scope, len(value), item, graph))
        if len(value) > FEW:
            return
        inner = value.items() if isinstance(value, dict) else ((None, one) for one in list(value))
        for key, one in list(inner):
            if key is not None or _is_users(type(one)):
                self._value(f"{name}[{key!r}]", one, scope, depth + 1)

    def _array(self, name: str, value: Any, scope: Scope) -> None:
        try:
            size = 1
            for each in value.shape:
                size *= int(each)
        except (TypeError, ValueError):  # a shape that is not known
            return
        item = type(value).__name__
        self.found.append(Held(ARRAY, name, scope, size, item))
        if _computed(value):
            self.found.append(Held(GRAPH, name, scope, _chain(value.grad_fn), item, True))

    def _object(self, value: Any, depth: int) -> None:
        own = getattr(value, "__dict__", None)
        if not isinstance(own, dict) or isinstance(value, type):
            return
        cls = type(value)
        if not _is_users(cls):
            if "dataset" in own:  # a loader's
                self._value("dataset", own["dataset"], Scope(""), depth + 1)
            return
        path = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if path is None:
            return
        scope = Scope(os.path.abspath(path), cls=cls.__name__)
        for name, each in list(own.items()):
            self._value(f"self.{name}", each, scope, depth + 1)


def _is_users(cls: type) -> bool:
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return path is not None and frames.is_users(path)


def _last(value: Any) -> Any:
    """The last item of a container, the last value of a dictionary."""
    if not value:
        return None
    if isinstance(value, list | deque):
        return value[-1]
    if isinstance(value, dict):
        return value[next(reversed(value))]
    return next(iter(value))


def _computed(value: Any) -> bool:
    """Whether it is a tensor that keeps the graph that it was computed by."""
    torch = type(value).__module__.partition(".")[0] == "torch"
    return torch and getattr(value, "grad_fn", None) is not None


def _chain(node: Any) -> int:
    """How many operations of one kind stand directly behind each other: a sum's terms."""
    count, kind = 0, type(node)
    while node is not None:
        count += 1
        before = (one for one, _ in node.next_functions)
        node = next((one for one in before if type(one) is kind), None)
    return count


def open_files() -> dict[str, int]:
    """How often each file is open in this process; empty where the system does not tell."""
    found: dict[str, int] = {}
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for number in numbers:
        try:
            target = os.readlink(f"/proc/self/fd/{number}").partition(":[")[0]
        except OSError:  # it was the listing's own
            continue
        found[target] = found.get(target, 0) + 1
    return found
