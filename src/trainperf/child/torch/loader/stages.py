"""Take a `DataLoader` apart: what the sampler, items and collating cost.

All of it is run in this process, one after the other, whoever makes the batches in the
user's run. The user's own iterator is never touched.
"""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import statistics
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ...process import frames
from ...process.patching import around, undo
from ...process.process import Attempt, Guard
from ...timing.budget import Budget
from .. import batches
from . import loaders, settings
from .padding import lengths_in_items
from .settings import batch_size, is_iterable, sampler_of

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver


STAGE_S = 1.0
"""Seconds for one stage at most, once it has done what it must do at least."""
MOST_COLLATED = 200
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
SAMPLER, ITEM, COLLATE = "sampler", "dataset item", "collate"

_ACCESSES = (
    *(("h5py", "File.__init__"), ("h5py", "File.close"), ("lmdb", "open"), ("numpy", "load")),
    *(("pandas", "read_csv"), ("pandas", "read_parquet"), ("tarfile", "open")),
    *(("pyarrow.parquet", name) for name in ("ParquetFile.__init__", "ParquetFile.close")),
    *(("pyarrow.parquet", "read_table"), ("zipfile", "ZipFile.__init__")),
    ("zipfile", "ZipFile.close"),
)
"""What opens, reads whole or closes a file."""


def record(driver: Driver, deadline: float) -> None:
    """Record every stage of the loop's loader, timed stage by stage.

    What is learnt of the loader on the way (`random`, `repeats`, `item_threads`, `shared_state`,
    `worker_threads`) is left in `driver.loader_facts` for the event
    `torch_loader`.
    """
    loader = driver.dataset()
    facts: dict[str, Any] = {}
    driver.loader_facts = facts  # type: ignore[attr-defined]
    if loader is None:
        reason = "the loop takes its batches from no DataLoader"
        driver.record.write("missing", what="stages", reason=reason)
        return
    states = settings.global_states()
    try:
        _Taking(driver, loader, deadline, facts).all()
    finally:
        settings.restore(states)


class _Taking:
    """One loader being taken apart; `seconds` is what making one batch took so far."""

    def __init__(self, driver: Any, loader: Any, deadline: float, facts: dict[str, Any]) -> None:
        self.driver = driver
        self.loader = loader
        self.deadline = deadline
        self.facts = facts
        self.per_step = float(getattr(driver, "batches_per_step", 1))
        self.seconds = 0.0
        self.indices: list[Any] = []

    def all(self) -> None:
        """Time every stage in turn; what fails says why, and what comes after it as well."""
        record, missing = self.driver.record, ""
        steps = {SAMPLER: self._sample, ITEM: self._make_items, COLLATE: self._collate}
        if is_iterable(self.loader):
            del steps[SAMPLER]
        for index, name in enumerate(steps):
            record.write("stage", index=index, **describe(self.loader, name))
        for index, step in enumerate(steps.values()):
            left = len(steps) - index
            share = (self.deadline - time.monotonic()) / left
            timed: dict[str, Any] = {}
            if not missing and share <= 0.0:
                missing = Budget.of(self.driver).lacking(STAGE_S * left, time.monotonic())
            elif not missing:
                try:
                    timed = step(min(STAGE_S, share))
                except Exception as error:
                    missing = f"{type(error).__name__}: {error}"[:300]
            record.write("stage_time", index=index, **(timed or {"missing": missing}))
            record.flush()
        with Attempt(self.driver.process, "the room for temporary files"):
            free = shutil.disk_usage(tempfile.gettempdir()).free
            self.driver.process.fact("temporary_free", free)  # for items that are kept in files

    def _timed(self, seconds: float, elements: int = 1, **more: Any) -> dict[str, Any]:
        """The event of a stage that adds so many seconds to making a batch, of its `elements`."""
        self.seconds += seconds
        per_step = self.per_step * elements
        return {"seconds": self.seconds / elements, "elements_per_step": per_step, **more}

    def _sample(self, seconds: float) -> dict[str, Any]:
        return self._timed(sampled(self.loader, seconds, self.indices))

    def _make_items(self, seconds: float) -> dict[str, Any]:
        """Make items as workers would, and see what they draw on and how many cores they use."""
        with Attempt(self.driver.process, "the threads of workers"):
            self.facts["worker_threads"] = loaders.busy_threads(self.driver.workers)
        # Of a dataset that only workers use shallow copies of its objects: what it opens when first
        # asked must not stay open in the process that forks them.
        dataset = self.loader.dataset
        dataset = _copied(dataset) if self.loader.num_workers else dataset
        self.items = items = Items(dataset, self.loader)
        before = settings.random_states(dataset)
        with own_threads(self.loader) as threads, timed_accesses(self.driver.process) as calls:
            used = cores_used(lambda: items.make(self.indices, seconds))
        self.facts["accesses"] = accesses_of_items(calls, items.made, items.seconds)
        self.facts["item_threads"] = threads if used > 1.3 else 1
        after = settings.random_states(dataset)
        drawn = [name for name, state in before.items() if after.get(name) != state]
        own = [name for name in drawn if name.startswith("self")]  # a generator of the dataset's
        self.facts["random"] = len(drawn) > len(own)
        if own and self.loader.num_workers == 0:
            self.facts["shared_state"] = (
                f"`{own[-1]}` is a random generator, and each worker would draw the same "
                "numbers from its copy"
            )
        self.facts["repeats"] = False if drawn else None
        if not drawn:
            with own_threads(self.loader), Attempt(self.driver.process, "items made a second time"):
                self.facts["repeats"] = items.repeat(self.indices)
        size = items.batch_items
        return self._timed(items.seconds * size, size, element_bytes=value_bytes(items.last))

    def _collate(self, seconds: float) -> dict[str, Any]:
        data: Any = None
        times: list[float] = []
        until = time.monotonic() + seconds
        with own_threads(self.loader):
            while len(times) < 2 or (time.monotonic() < until and len(times) < MOST_COLLATED):
                data = self.items.batch(len(times))
                began = time.monotonic()
                batch = self.loader.collate_fn(data)
                times.append(time.monotonic() - began)
                if times[-1] > seconds:
                    break
        with Attempt(self.driver.process, "the lengths of items"):
            items = data if isinstance(data, list) else []
            self.facts["length"] = lengths_in_items(items, batch) if items else None
        usual_s = statistics.fmean(times[1:] or times)  # the first may import or compile
        return self._timed(usual_s, element_bytes=value_bytes(batch))


def describe(loader: Any, name: str) -> dict[str, Any]:
    """One stage as an event has it, without its times."""
    arguments: dict[str, Any] = {"batch_size": batch_size(loader)}
    if name == SAMPLER:
        code = settings.users_code(getattr(type(sampler_of(loader)), "__iter__", None))
    elif name == ITEM:
        code = settings.users_item(loader.dataset)
        arguments |= {"workers": loader.num_workers, "prefetch_factor": loader.prefetch_factor}
    else:
        code = settings.users_code(loader.collate_fn)
        called = getattr(loader.collate_fn, "func", loader.collate_fn)
        arguments["collate_fn"] = str(getattr(called, "__name__", type(called).__name__))
    users, function, cardinality = name == ITEM or code is not None, None, None
    if code is not None:
        qualified = code.co_qualname.replace("<locals>.", "")
        function = frames.definition(code) | {"name": qualified}
    with suppress(Exception):  # no length, or one of the user's that fails
        cardinality = len(loader.dataset if name == ITEM else loader._index_sampler)
    return {
        "op": name,
        "where": getattr(loader, "_trainperf_site", None) if users else None,
        "by_user": users,
        "arguments": arguments,
        "function": function,
        "cardinality": cardinality,
    }


def _copied(dataset: Any, depth: int = 0) -> Any:
    if hasattr(type(dataset), "__del__") or depth > settings.DEEPEST:
        return dataset
    try:
        made = copy.copy(dataset)
        fields = made.__dict__
    except Exception:  # one that cannot be copied is used as it is
        return dataset
    for name in settings.INNER:
        value = fields.get(name)
        if isinstance(value, list):
            fields[name] = [_copied(each, depth + 1) for each in value]
        elif hasattr(value, "__dict__"):
            fields[name] = _copied(value, depth + 1)
    return made


# The cost of files that items open: it is timed while items are made, in libraries that the program
# has imported.


@contextmanager
def timed_accesses(process: Guard) -> Iterator[dict[str, list[tuple[float, str]]]]:
    """Time such calls while the block runs: by what is called, seconds and the file opened."""
    found: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    replaced, inside = [], False

    def call(module: str, name: str, original: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make and time a call; not one within another, or of what is no name of a file."""
        nonlocal inside
        given = next(iter([*args[name.endswith("__init__") :], *kwargs.values()]), None)
        named = isinstance(given, (str, bytes, os.PathLike))  # h5py makes files of others
        opens = not name.endswith(".close")
        if inside or (opens and not named):
            return original(*args, **kwargs)
        inside, began = True, time.monotonic()
        try:
            return original(*args, **kwargs)
        finally:
            inside, seconds = False, time.monotonic() - began
            found[f"{module}.{name.split('.')[0]}"].append((seconds, str(given) if opens else ""))

    try:
        for module, name in _ACCESSES:
            cls, _, last = name.rpartition(".")
            owner: Any = sys.modules.get(module)
            owner = getattr(owner, cls, None) if cls else owner
            if owner is not None and hasattr(owner, last):
                around(process, owner, last, ours=True)(partial(call, module, name))
                replaced.append((owner, last))
        yield found
    finally:
        for owner, last in replaced:
            undo(owner, last)


def accesses_of_items(
    found: dict[str, list[tuple[float, str]]], made: int, item_s: float
) -> list[dict[str, Any]]:
    """What was called for so many items: calls and seconds for each, the share of `item_s`.

    `repeated` is the share of calls that were given a file which another was given.
    """
    told = []
    for name, calls in found.items():
        if files := [file for _, file in calls if file]:
            seconds = sum(spent for spent, _ in calls) / made
            counted = {"calls": len(files) / made, "seconds": seconds}
            counted["repeated"] = 1 - len(set(files)) / len(files)
            told.append({"name": name, **counted, "share": min(1.0, seconds / max(item_s, 1e-9))})
    return told


# Make indices and items in this process, and time them.


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
        if self.batched and not self.iterable:  # all batches are alike, mostly
            self.batch_items = max(1, sorted(map(len, indices))[len(indices) // 2])
        began = warm = time.monotonic()
        firsts, first_s = 0, 0.0
        for got in self._fetched(indices):
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

    def _fetched(self, indices: list[Any]) -> Iterator[Any]:
        """The items as they are fetched: one after the other, or a batch in one call."""
        if self.iterable:
            iterator = iter(self.dataset)
            if iterator is self.dataset:
                raise Spent("the dataset can be gone through only once")
            return ([item] for item in iterator)
        if self.batched and _fetches_whole(self.dataset):
            return map(self.dataset.__getitems__, indices)
        flat = [index for several in indices for index in several] if self.batched else indices
        return ([self.dataset[index]] for index in flat)

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


def record_digest(driver: Any) -> None:
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


def value_bytes(value: Any, depth: int = 0) -> int:
    """Bytes of the tensors, arrays and texts in a value of nested containers."""
    if isinstance(getattr(value, "nbytes", None), int):
        return int(value.nbytes)
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if depth >= settings.DEEPEST:
        return 0
    if isinstance(value, dict) or hasattr(value, "keys"):
        value = [value[key] for key in value.keys()]  # noqa: SIM118 - not all iterate keys
    if isinstance(value, (list, tuple)):
        return sum(value_bytes(each, depth + 1) for each in value)
    return 0
