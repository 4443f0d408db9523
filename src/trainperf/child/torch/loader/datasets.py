"""The user's part of a dataset: what makes an item, and whether it asks who it works for."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

from ...process import frames

MAKERS = ("__getitems__", "__getitem__", "__iter__", "__next__")
INNER = ("dataset", "_dataset", "datasets", "datapipe", "source_datapipe", "main_datapipe")
"""Where datasets that wrap others keep them: Subset, ConcatDataset, data pipes."""
TRANSFORMS = ("transform", "transforms", "target_transform", "collate", "fn")
ASKS = (
    "get_worker_info",
    "worker_info",
    "_worker_info",
    "sharding_filter",
    "split_by_worker",
    "split_dataset_by_node",
)
"""Names by which an iterable dataset gives each worker a part of its own."""
SHARDERS = ("ShardingFilterIterDataPipe",)
DEEPEST = 5
MOST_INNER = 8


def users_item(dataset: Any) -> CodeType | None:
    """The code of the user's that makes an item, None if all of it is a library's.

    Of a library's dataset that calls a transform of the user's, the transform.
    """
    for one in inner(dataset):
        for name in MAKERS:
            code = code_of(getattr(type(one), name, None))
            if code is not None and frames.is_users(code.co_filename):
                return code
    for one in inner(dataset):
        for name in TRANSFORMS:
            code = _users_transform(getattr(one, "__dict__", {}).get(name))
            if code is not None:
                return code
    return None


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


def code_of(function: Any) -> CodeType | None:
    """The code of a function, method, partial or callable object; what a decorator hides too."""
    for _ in range(DEEPEST):
        wrapped = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if wrapped is None:
            break
        function = wrapped
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None and function is not None and not isinstance(function, type):
        members = (vars(base).get("__call__") for base in type(function).__mro__)
        code = getattr(next(filter(None, members), None), "__code__", None)
    return code if isinstance(code, CodeType) else None


def users_code(function: Any) -> CodeType | None:
    """The code of a function if the user wrote it."""
    code = code_of(function)
    return code if code is not None and frames.is_users(code.co_filename) else None


def _users_transform(value: Any) -> CodeType | None:
    inside = getattr(value, "transforms", None)  # torchvision's Compose
    several = inside if isinstance(inside, (list, tuple)) else [value]
    return next((code for each in several if (code := users_code(each)) is not None), None)


def sharded(loader: Any) -> bool | None:
    """Whether an iterable dataset gives each worker a part; None for one that is indexed.

    WebDataset's may, and may count an epoch in each worker: None as well.
    """
    if int(getattr(loader, "_dataset_kind", 0)) != 1:
        return None
    if loader.worker_init_fn is not None:
        return True
    for one in inner(loader.dataset):
        if type(one).__name__ in SHARDERS or type(one).__module__.startswith("datasets."):
            return True
        if any(base.__module__.startswith("webdataset") for base in type(one).__mro__):
            return None
        if not all(_names(code).isdisjoint(ASKS) for code in _reached(type(one))):
            return True
    return False


def _reached(cls: type) -> Iterator[CodeType]:
    """The code of a dataset class that the user wrote, and of the functions it calls."""
    for base in cls.__mro__:
        for member in list(vars(base).values()):
            function = getattr(member, "__func__", getattr(member, "fget", None) or member)
            code = users_code(function) if callable(function) else None
            if code is None:
                continue
            yield code
            around = getattr(function, "__globals__", {})
            for name in _names(code):
                called = around.get(name)
                if callable(called) and not isinstance(called, type):
                    inside = users_code(called)
                    if inside is not None:
                        yield inside


def _names(code: CodeType) -> set[str]:
    """The names that a piece of code and what is nested in it use."""
    return {name for one in frames.nested(code) for name in (*one.co_names, *one.co_freevars)}
