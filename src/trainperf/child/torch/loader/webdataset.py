"""Pipelines of WebDataset over tar shards: how workers divide them, and the functions in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

LIBRARY = "webdataset"
DIVIDES = "split_by_worker"
"""The library's step that leaves each worker its own shards (0.1 to 1.0)."""
RESAMPLES = ("ResampledShards", "ResampledShardList")
"""Steps that draw shards again and again, each worker from all of them."""


def is_pipeline(dataset: Any) -> bool:
    """Whether a dataset is one of the library's, or of a class made of one."""
    own = any(cls.__module__.partition(".")[0] == LIBRARY for cls in type(dataset).__mro__)
    return own and isinstance(getattr(dataset, "pipeline", None), list)


def steps(dataset: Any) -> list[Any]:
    """The steps of a pipeline in order, those of pipelines within it among them."""
    if not is_pipeline(dataset):
        return []
    found: list[Any] = []
    for one in dataset.pipeline:
        found += steps(one) or [one]
    return found


def divides(dataset: Any) -> bool:
    """Whether each worker takes samples of its own: its part of the shards, or drawn ones."""
    return any(step_name(one) == DIVIDES or _resamples(one) for one in steps(dataset))


def shards(dataset: Any) -> int | None:
    """How many shards the workers divide; None where they do not, or it is not known."""
    held = steps(dataset)
    if any(map(_resamples, held)):
        return None
    urls = next((one.urls for one in held if isinstance(getattr(one, "urls", None), list)), None)
    return len(urls) if urls else None


def counted(dataset: Any) -> int | None:
    """How many items a pipeline gives until it begins anew, where that was set by a number."""
    if not is_pipeline(dataset):
        return None
    found = int(getattr(dataset, "nsamples", -1))
    return found if found > 0 and getattr(dataset, "repetitions", 1) != 1 else None


def step_name(step: Any) -> str:
    """The name of a step's filter: "map", "batched", "tar_file_expander"."""
    function = getattr(step, "f", step)
    return str(getattr(function, "__name__", type(step).__name__)).lstrip("_")


def functions(dataset: Any) -> Iterator[Any]:
    """Whatever the steps of a pipeline were given to call, in their order."""
    for one in steps(dataset):
        yield from step_functions(one)


def step_functions(step: Any) -> Iterator[Any]:
    """What one step was given to call; of a decoder its handlers."""
    given = [*getattr(step, "args", ()), *getattr(step, "kw", {}).values()]
    for one in given if hasattr(step, "f") else [step]:
        several = one if isinstance(one, (list, tuple)) else getattr(one, "handlers", [one])
        yield from (each for each in several if callable(each))


def _resamples(step: Any) -> bool:
    return type(step).__name__ in RESAMPLES
