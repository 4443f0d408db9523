"""Make the indices and items of a `DataLoader` in this process, and time them."""

from __future__ import annotations

import pickle
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from .. import batches
from .settings import batch_size, is_iterable, sampler_of

KEPT = 64
"""So many batches of indices are kept for making items."""
KEPT_BYTES = 256 * 1024**2
"""Items are kept for collating up to so many bytes, but for one batch at least."""
KEPT_BATCHES = 4
REPEATED = 2
"""So many items are made a second time, to see whether they are the same."""
MOST_SAMPLED = 5000
QUIET_S = 0.3
"""Threads of a library spin for at most about so long when their work is done
(200 ms in Intel's OpenMP) before they sleep."""


class Spent(Exception):  # noqa: N818 - an outcome, not an error
    """An iterator that can be opened only once is in use by the user's loop."""


def sampled(loader: Any, seconds: float, indices: list[Any]) -> float:
    """Draw batches of indices into `indices`; return seconds per batch.

    What the first takes (shuffling) is spread over the epoch. Raises `Spent`, or ValueError.
    """
    source = loader._index_sampler
    once = any(hasattr(one, "__next__") for one in (loader.sampler, loader.batch_sampler))
    began = at = time.monotonic()
    iterator = None if once else iter(source)
    if iterator is None or iterator is source or iterator is sampler_of(loader):
        raise Spent("its sampler can be gone through only once")
    drawn, first = 0, 0.0
    for drawn, each in enumerate(iterator, 1):
        at = time.monotonic()
        first = first or at - began
        if len(indices) < KEPT:
            indices.append(each)
        if at - began > seconds or drawn >= MOST_SAMPLED:
            break
    if not drawn:
        raise ValueError("its sampler gave no index")
    whole = drawn
    with suppress(TypeError):  # it has no length
        whole = max(drawn, len(source))
    rest = (at - began - first) / (drawn - 1) if drawn > 1 else 0.0
    return rest + first / whole


class Items:
    """Items made one after the other; `seconds` is what one took, the first left out.

    `batch_items` is how many make a batch.
    """

    def __init__(self, dataset: Any, loader: Any) -> None:
        self.dataset = dataset
        self.batched = bool(loader._auto_collation)
        self.iterable = is_iterable(loader)
        self.batch_items = (batch_size(loader) or 1) if self.batched else 1
        self.made = 0
        self.seconds = 0.0
        self.last: Any = None
        self._kept: list[Any] = []
        self._bytes = 0

    def make(self, indices: list[Any], seconds: float) -> None:
        """Make items for so many seconds, one batch more at most where batches are fetched.

        Raises what the dataset raises, and `Spent`.
        """
        groups: Any
        fetch: Callable[[Any], Any]
        if self.iterable:
            iterator = iter(self.dataset)
            if iterator is self.dataset:
                raise Spent("the dataset can be gone through only once")
            groups, fetch = count(), lambda _: [next(iterator)]
        elif not self.batched:
            groups, fetch = indices, lambda index: [self.dataset[index]]
        else:  # the odd last one aside, all batches are alike mostly
            self.batch_items = max(1, sorted(map(len, indices))[len(indices) // 2])
            groups = [index for several in indices for index in several]
            fetch = lambda index: [self.dataset[index]]  # noqa: E731
            if _fetches_whole(self.dataset):
                groups, fetch = indices, self.dataset.__getitems__
        began = warm = time.monotonic()
        firsts, first_s = 0, 0.0
        for group in groups:
            try:
                got = fetch(group)
            except StopIteration:
                break
            now = time.monotonic()
            if not self.made:
                warm, first_s, firsts = now, now - began, len(got)
            self.made += len(got)
            for item in got:
                self.last = item
                most = self.batch_items * (KEPT_BATCHES if self._bytes < KEPT_BYTES else 1)
                if len(self._kept) < most:
                    self._kept.append(item)
                    self._bytes += value_bytes(item)
            if now - began > seconds:
                break
            warm += time.monotonic() - now
        if not self.made:
            raise ValueError("the dataset gave no item")
        more = self.made - firsts
        self.seconds = (now - warm) / more if more else first_s / firsts

    def repeat(self, indices: list[Any]) -> bool | None:
        """Whether the first items made again are the same; None where that cannot be told."""
        if self.iterable or (self.batched and _fetches_whole(self.dataset)):
            return None
        first = [one for each in indices for one in each] if self.batched else indices
        pairs = list(zip(first, self._kept, strict=False))[:REPEATED]
        if not pairs:
            return None
        return all(_content(self.dataset[at]) == _content(item) for at, item in pairs)

    def batch(self, number: int) -> Any:
        """The items for one call of the collate function; too few are repeated."""
        if not self.batched:
            return self._kept[number % len(self._kept)]
        kept, size = self._kept, self.batch_items
        start = number * size if (number + 1) * size <= len(kept) else 0
        some = kept[start : start + size]
        return (some * (size // len(some) + 1))[:size]


def _fetches_whole(dataset: Any) -> bool:
    """Whether a batch is fetched in one call; torch's `Subset` only passes that on."""
    while type(dataset).__name__ == "Subset" and type(dataset).__module__.startswith("torch."):
        dataset = dataset.dataset
    return bool(getattr(dataset, "__getitems__", None))


def cores_used(work: Callable[[], Any]) -> float:
    """Run `work`; return how many cores this process kept busy meanwhile.

    What its other threads use anyway is left out: it waits until they are quiet, and
    takes away what they use if they never are.
    """

    def used(work: Callable[[], Any]) -> float:
        began, cpu = time.monotonic(), time.process_time()
        work()
        return (time.process_time() - cpu) / max(time.monotonic() - began, 1e-9)

    until, idle = time.monotonic() + QUIET_S, 1.0
    while idle > 0.2 and time.monotonic() < until:
        idle = used(lambda: time.sleep(0.02))
    return max(0.0, used(work) - idle)


@contextmanager
def own_threads(loader: Any) -> Iterator[int]:
    """As many threads of PyTorch's as where items are made: one in a worker."""
    torch: Any = sys.modules["torch"]
    threads = torch.get_num_threads()
    if loader.num_workers > 0 and threads > 1:
        torch.set_num_threads(1)
    try:
        yield threads
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def record(driver: Any) -> None:
    """Record the fact `data_digest`; nothing where items cannot be had by number.

    The items are made once more, when all is timed. Items that are made by chance have
    another digest on each rank: then nothing can be said, and nothing is.
    """
    dataset = getattr(driver.loader, "dataset", None)
    if dataset is None or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return
    count = len(dataset)
    if not count:
        return
    found = zlib.crc32(str(count).encode())
    for index in (0, count // 2):
        found = zlib.crc32(_content(dataset[index]), found)
    driver.process.fact("data_digest", f"{found:08x}")


def _content(item: Any) -> bytes:
    """The content of an item; pickled where it is not made of tensors."""
    import torch

    tensors = list(batches.leaves(item))
    if not tensors:
        return pickle.dumps(item)
    parts = [one.detach().cpu().reshape(-1).contiguous().view(torch.uint8) for one in tensors]
    return b"".join(one.numpy().tobytes() for one in parts)


DEEPEST = 5


def value_bytes(value: Any, depth: int = 0) -> int:
    """Bytes of the tensors, arrays and texts in a value of nested containers."""
    if isinstance(getattr(value, "nbytes", None), int):
        return int(value.nbytes)
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if depth >= DEEPEST:
        return 0
    if isinstance(value, dict) or hasattr(value, "keys"):
        value = [value[key] for key in value.keys()]  # noqa: SIM118 - not all iterate keys
    if isinstance(value, (list, tuple)):
        return sum(value_bytes(each, depth + 1) for each in value)
    return 0
