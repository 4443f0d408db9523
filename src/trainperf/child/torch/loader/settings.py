"""A `DataLoader` as it can be read without asking it for a batch.

Its settings, the user's code, what worker processes must not share, and random generators.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from types import CodeType
from typing import Any

from ...process import frames
from ..built.models import reached

MAKERS = ("__getitems__", "__getitem__", "__iter__", "__next__")
INNER = ("dataset", "_dataset", "datasets")
"""Where datasets that wrap others keep them: Subset, ConcatDataset."""
TRANSFORMS = ("transform", "transforms", "target_transform", "collate", "fn")
ASKS = frozenset(
    ("get_worker_info", "worker_info", "_worker_info", "split_by_worker", "split_dataset_by_node")
)
"""Names by which an iterable dataset gives each worker a part of its own."""
DEEPEST = 5
MOST_INNER = 8


def settings_of(loader: Any) -> dict[str, Any]:
    """The settings of a loader as its constructor left them, cheap to read."""
    sampler = sampler_of(loader)
    head = users_item(loader.dataset)
    init = users_code(loader.worker_init_fn)
    return {
        "dataset": type(loader.dataset).__qualname__,
        "item": frames.definition(head) if head is not None else None,
        "iterable": is_iterable(loader),
        "batch_size": batch_size(loader),
        "workers": int(loader.num_workers),
        "pin_memory": bool(loader.pin_memory),
        "persistent_workers": bool(loader.persistent_workers),
        "prefetch_factor": loader.prefetch_factor,
        "start_method": start_method(loader),
        "shuffled": "Random" in type(sampler).__name__ or getattr(sampler, "shuffle", 0) is True,
        "init": frames.definition(init) if init is not None else None,
        "sampler": type(sampler).__name__,
    }


def is_iterable(loader: Any) -> bool:
    """Whether the loader's dataset is iterated rather than indexed."""
    return int(getattr(loader, "_dataset_kind", 0)) == 1


def sampler_of(loader: Any) -> Any:
    """The sampler that gives the order: a batch sampler of the user's own, or what it draws on."""
    own = loader.batch_sampler
    if own is not None and type(own).__name__ != "BatchSampler":
        return own
    return getattr(own, "sampler", loader.sampler)


def batch_size(loader: Any) -> int | None:
    """Samples of a batch, None where only the batches themselves can say."""
    size = loader.batch_size
    if size is None:
        size = getattr(loader.batch_sampler, "batch_size", None)
    return int(size) if isinstance(size, int) else None


def start_method(loader: Any) -> str:
    """How workers are, or would be, started; asking does not decide it for the program."""
    context = loader.multiprocessing_context
    if context is not None:
        return str(context.get_start_method())
    multiprocessing: Any = sys.modules["multiprocessing"]
    chosen = multiprocessing.get_start_method(allow_none=True)
    return str(chosen or multiprocessing.get_all_start_methods()[0])  # the first is the default


def batches_of(loader: Any) -> int | None:
    """The loader's length; `len(loader)` itself would have it warn about longer epochs."""
    try:
        if not is_iterable(loader):
            return len(loader._index_sampler)
        length, size = len(loader.dataset), int(loader.batch_size or 1)
        return length // size if loader.drop_last else -(-length // size)
    except Exception:  # no length, or one of the user's that fails: it has none
        return None


# The user's part of a dataset: what makes an item, and whether it asks who it works for.


def users_item(dataset: Any) -> CodeType | None:
    """The code of the user's that makes an item, None if all of it is a library's.

    Of a library's dataset that calls a transform of the user's, the transform.
    """
    held = list(inner(dataset))
    makers = [getattr(type(one), name, None) for one in held for name in MAKERS]
    for one in held:
        for name in TRANSFORMS:
            transform = getattr(one, "__dict__", {}).get(name)
            several = getattr(transform, "transforms", None)  # torchvision's `Compose`
            makers += several if isinstance(several, (list, tuple)) else [transform]
    return next(filter(None, map(users_code, makers)), None)


def inner(dataset: Any, depth: int = 0) -> Iterator[Any]:
    """The dataset, and those it wraps, outermost first."""
    yield dataset
    if depth >= DEEPEST:
        return
    fields = getattr(dataset, "__dict__", {})
    for name in INNER:
        value = fields.get(name)
        several = value if isinstance(value, (list, tuple)) else [value]
        for each in several[:MOST_INNER]:
            if each is not None and hasattr(each, "__dict__"):
                yield from inner(each, depth + 1)


def users_code(function: Any) -> CodeType | None:
    """The code of a function, method, partial or callable object, if the user wrote it.

    What a decorator hides too.
    """
    for _ in range(DEEPEST):
        wrapped = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if wrapped is None:
            break
        function = wrapped
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None and function is not None and not isinstance(function, type):
        calls = (vars(base).get("__call__") for base in type(function).__mro__)
        code = getattr(next(filter(None, calls), None), "__code__", None)
    users = isinstance(code, CodeType) and frames.is_users(code.co_filename)
    return code if users else None


def sharded(loader: Any) -> bool | None:
    """Whether an iterable dataset gives each worker a part; None for one that is indexed."""
    if not is_iterable(loader):
        return None
    if loader.worker_init_fn is not None:
        return True
    for dataset in inner(loader.dataset):
        if type(dataset).__module__.startswith("datasets."):
            return True
        for base in type(dataset).__mro__:
            for member in vars(base).values():
                function = getattr(member, "__func__", getattr(member, "fget", member))
                called = reached(dataset, getattr(function, "__wrapped__", function), 1)
                if any(not ASKS.isdisjoint(words) for _, words in called):
                    return True
    return False


# What a dataset holds that worker processes must not share, and its random generators.

MOST_VALUES = 2000
MOST_OF_ONE = 50
"""So deep, so many values in all and of one container are looked at: a few ms."""
STREAMS = (sys.__stdin__, sys.__stdout__, sys.__stderr__)

HANDLES = {
    **dict.fromkeys(("h5py.File", "h5py.Group", "h5py.Dataset"), "an open HDF5 file"),
    **dict.fromkeys(("zipfile.ZipFile", "tarfile.TarFile"), "an open archive"),
    **dict.fromkeys(("_thread.lock", "_thread.RLock"), "a lock"),
    "lmdb.Environment": "an open LMDB environment",
    "sqlite3.Connection": "an open SQLite connection",
    "socket.socket": "an open socket",
    "threading.Thread": "a thread",
}
NOT_ENTERED = {"datasets", "logging", "pandas", "pyarrow", "tokenizers", "transformers"}
"""Libraries whose objects workers are known to take over, whatever they hold."""
GENERATORS = {"random.Random", "numpy.Generator", "numpy.RandomState", "torch.Generator"}
PLAIN = (str, bytes, int, float, type(None), type)


def shared_state(dataset: Any) -> str:
    """Why workers cannot simply take the dataset over, "" if nothing was found against it.

    Looks at what the dataset holds, not into it: nothing is read, called or copied.
    """
    found = ((path, what) for path, value in _held(dataset) if (what := _handle(value)))
    return next((f"`{path}` is {what}" for path, what in found), "")


def random_states(dataset: Any) -> dict[str, str]:
    """The states of the random streams, as text to compare: the global ones, by their library.

    And those that a dataset holds, by the path to them.
    """
    states = global_states()
    for path, value in _held(dataset):
        if not GENERATORS.isdisjoint(_kinds(value)):
            told = getattr(value, "getstate", None) or getattr(value, "get_state", None)
            with suppress(NotImplementedError):  # Python's `SystemRandom`
                states[path] = told() if told is not None else value.bit_generator.state
    return {name: _text(state) for name, state in states.items()}


def _held(dataset: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a dataset, each with the path to it, breadth first."""
    level, seen = [("self", dataset)], {id(dataset)}
    for _ in range(DEEPEST):
        parts = [part for path, holder in level for part in _parts(path, holder)]
        level = []
        for path, value in parts:
            if not isinstance(value, PLAIN) and id(value) not in seen and len(seen) < MOST_VALUES:
                seen.add(id(value))
                level.append((path, value))
                yield path, value


def _parts(path: str, holder: Any) -> list[tuple[str, Any]]:
    if isinstance(holder, dict):
        return [(f"{path}[{key!r:.30}]", holder[key]) for key in islice(holder, MOST_OF_ONE)]
    if isinstance(holder, (list, tuple)):
        return [(f"{path}[{at}]", value) for at, value in enumerate(holder[:MOST_OF_ONE])]
    fields, library = getattr(holder, "__dict__", None), _root(type(holder))
    code = isinstance(holder, (types.ModuleType, types.FunctionType, types.MethodType))
    layer = library in ("torch", "numpy") and not hasattr(holder, "__getitem__")
    if code or layer or library in NOT_ENTERED or not isinstance(fields, dict):
        return []
    return [(f"{path}.{name}", value) for name, value in islice(fields.items(), MOST_OF_ONE)]


def _root(cls: type) -> str:
    return (cls.__module__ or "").partition(".")[0]


def _kinds(value: Any) -> list[str]:
    return [f"{_root(base)}.{base.__name__}" for base in type(value).__mro__]


def _handle(value: Any) -> str:
    """The kind of a handle that two processes must not share, "" for any other value."""
    if isinstance(value, types.GeneratorType):
        return "a generator, which only one process can go through"
    if getattr(value, "is_cuda", False) is True:
        return "a tensor on the GPU"
    what = next(filter(None, map(HANDLES.get, _kinds(value))), "")
    if isinstance(value, io.IOBase):
        harmless = isinstance(value, (io.BytesIO, io.StringIO)) or value in STREAMS
        what = "" if harmless else "an open file"
    if not what:
        return ""  # what it holds may answer anything, or raise
    closed = getattr(value, "closed", getattr(value, "_closed", False)) is True
    if _root(type(value)) == "h5py":
        closed = not value
    return "" if closed or getattr(value, "fp", True) is None else what  # of an archive


def global_states() -> dict[str, Any]:
    """The states of the global random streams of Python, NumPy and PyTorch."""
    import random

    numpy: Any = sys.modules.get("numpy.random")
    found = {} if numpy is None else {"NumPy": numpy.get_state()}
    return found | {
        "Python": random.getstate(),
        "PyTorch": sys.modules["torch"].get_rng_state(),
    }


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
