"""The settings of a `DataLoader`, as they can be read without asking it for a batch."""

from __future__ import annotations

import sys
from typing import Any

from ...process import frames
from . import datasets


def settings_of(loader: Any) -> dict[str, Any]:
    """The settings of a loader as its constructor left them, cheap to read."""
    sampler = sampler_of(loader)
    head = datasets.users_item(loader.dataset)
    init = datasets.users_code(loader.worker_init_fn)
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
        "shuffled": _is_shuffled(sampler),
        "drop_last": bool(loader.drop_last or getattr(loader.batch_sampler, "drop_last", False)),
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


def _is_shuffled(sampler: Any) -> bool:
    if "Random" in type(sampler).__name__:
        return True
    shuffle = getattr(sampler, "shuffle", False)
    return isinstance(shuffle, bool) and shuffle


def batches_of(loader: Any) -> int | None:
    """The loader's length; `len(loader)` itself would have it warn about longer epochs."""
    try:
        if not is_iterable(loader):
            return len(loader._index_sampler)
        length, size = len(loader.dataset), int(loader.batch_size or 1)
        return length // size if loader.drop_last else -(-length // size)
    except Exception:  # no length, or one of the user's that fails: it has none
        return None
