"""What a dataset holds that worker processes must not share, and its random generators."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Iterator
from itertools import islice
from typing import Any

DEEPEST = 5
MOST_VALUES = 2000
MOST_OF_ONE = 50
"""So deep, so many values in all and of one container are looked at: a few ms."""
STREAMS = (sys.__stdin__, sys.__stdout__, sys.__stderr__)

HANDLES = {
    "h5py.File": "an open HDF5 file",
    "h5py.Group": "part of an open HDF5 file",
    "h5py.Dataset": "part of an open HDF5 file",
    "lmdb.Environment": "an open LMDB environment",
    "sqlite3.Connection": "an open SQLite connection",
    "zipfile.ZipFile": "an open archive",
    "tarfile.TarFile": "an open archive",
    "socket.socket": "an open socket",
    "threading.Thread": "a thread",
    "_thread.lock": "a lock",
    "_thread.RLock": "a lock",
}
NOT_ENTERED = {"datasets", "logging", "pandas", "pyarrow", "tokenizers", "transformers"}
"""Libraries whose objects workers are known to take over, whatever they hold."""
GENERATORS = {"random.Random", "numpy.Generator", "numpy.RandomState", "torch.Generator"}


def shared_state(dataset: Any) -> str:
    """Why workers cannot simply take the dataset over, "" if nothing was found against it.

    Looks at what the dataset holds, not into it: nothing is read, called or copied.
    """
    found = ((path, what) for path, value in _held(dataset) if (what := _handle(value)))
    return next((f"`{path}` is {what}" for path, what in found), "")


def generators(dataset: Any) -> list[tuple[str, Any]]:
    """The random generators a dataset holds, each with the path to it."""
    return [
        (path, value)
        for path, value in _held(dataset)
        if {f"{_root(base)}.{base.__name__}" for base in type(value).__mro__} & GENERATORS
    ]


def generator_state(generator: Any) -> str:
    """The state of a random generator, as text to compare; "" where it tells none."""
    if hasattr(generator, "bit_generator"):  # NumPy's
        return _text(generator.bit_generator.state)
    state = getattr(generator, "getstate", None) or getattr(generator, "get_state", None)
    try:
        return _text(state()) if state is not None else ""
    except NotImplementedError:  # Python's `SystemRandom`
        return ""


def _held(dataset: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a dataset, each with the path to it, breadth first."""
    level: list[tuple[str, Any]] = [("self", dataset)]
    seen = {id(dataset)}
    for _ in range(DEEPEST):
        following: list[tuple[str, Any]] = []
        for path, holder in level:
            for name, value in _members(path, holder):
                plain = isinstance(value, (str, bytes, int, float, bool, type(None), type))
                if plain or id(value) in seen:
                    continue
                seen.add(id(value))
                if len(seen) > MOST_VALUES:
                    return
                yield name, value
                following.append((name, value))
        level = following


def _members(path: str, holder: Any) -> list[tuple[str, Any]]:
    if isinstance(holder, dict):
        return [(f"{path}[{key!r:.30}]", holder[key]) for key in islice(holder, MOST_OF_ONE)]
    if isinstance(holder, (list, tuple)):
        return [(f"{path}[{at}]", value) for at, value in enumerate(holder[:MOST_OF_ONE])]
    fields, library = getattr(holder, "__dict__", None), _root(type(holder))
    code = isinstance(holder, (types.ModuleType, types.FunctionType, types.MethodType))
    layer = library in ("torch", "numpy") and not hasattr(holder, "__getitem__")
    if code or layer or library in NOT_ENTERED or not isinstance(fields, dict):
        return []
    return [(f"{path}.{name}", value) for name, value in list(fields.items())[:MOST_OF_ONE]]


def _root(cls: type) -> str:
    return (cls.__module__ or "").partition(".")[0]


def _handle(value: Any) -> str:
    """The kind of a handle that two processes must not share, "" for any other value."""
    if isinstance(value, io.IOBase):
        harmless = isinstance(value, (io.BytesIO, io.StringIO)) or value in STREAMS
        return "" if harmless or value.closed else "an open file"
    if isinstance(value, types.GeneratorType):
        return "a generator, which only one process can go through"
    for cls in type(value).__mro__:
        what = HANDLES.get(f"{_root(cls)}.{cls.__name__}", "")
        if what:
            return "" if _is_closed(value) else what
    if getattr(value, "is_cuda", False) is True:
        return "a tensor on the GPU"
    return ""


def _is_closed(value: Any) -> bool:
    """Whether a handle was closed, as those that can say so say it."""
    if _root(type(value)) == "h5py":
        return not bool(value)
    if isinstance(getattr(value, "NameToInfo", None), dict):  # a `ZipFile`
        return getattr(value, "fp", None) is None
    return getattr(value, "closed", getattr(value, "_closed", False)) is True


def global_states() -> dict[str, Any]:
    """The states of the global random streams of Python, NumPy and PyTorch, to compare."""
    import random

    numpy: Any = sys.modules.get("numpy.random")
    found = {} if numpy is None else {"NumPy": numpy.get_state()}
    return found | {
        "Python": random.getstate(),
        "PyTorch": sys.modules["torch"].get_rng_state(),
    }


def drawn(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether any global stream was drawn from between two states."""
    return any(_text(before[name]) != _text(after[name]) for name in before if name in after)


def _text(state: Any) -> str:
    """The whole of a state: arrays print in part only."""
    if hasattr(state, "tolist"):
        return repr(state.tolist())
    if isinstance(state, dict):
        return repr([(key, _text(value)) for key, value in state.items()])
    return repr([_text(part) for part in state] if isinstance(state, tuple) else state)


def restore(states: dict[str, Any]) -> None:
    """Put the global random streams back."""
    import random

    random.setstate(states["Python"])
    if "NumPy" in states:
        sys.modules["numpy.random"].set_state(states["NumPy"])
    sys.modules["torch"].set_rng_state(states["PyTorch"])
