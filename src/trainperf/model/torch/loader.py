"""A PyTorch process's `DataLoader`s, as they tell of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainperf.model.basics import Site


@dataclass(frozen=True)
class ItemLength:
    """Where the length of an item's sequence stands: `item[at]`, or the item where that is None.

    It is `len` of it; or where items are padded already how many steps are "given", that is not
    `value`, or for `features` not zero.
    """

    at: int | str | None
    how: Literal["len", "given"]
    value: int = 0
    features: bool = False


@dataclass(frozen=True)
class Access:
    """Files that items open or read, timed while they were made.

    `name` is what does so ("h5py.File"); `calls` and `seconds` are those of one item, `share` is of
    the time that one takes, `repeated` that of the calls given a file which others were given as
    well.
    """

    name: str
    calls: float
    seconds: float
    share: float
    repeated: float = 1.0


@dataclass(frozen=True)
class Loader:
    """A `DataLoader`, by the place where it is built, as its constructor left it.

    `batches` is its length, None if it has none. `built` counts how many were built at
    this place while observed, `item` is the head of the user's `__getitem__` or
    `__iter__`. `random` says that making items drew from a global random stream, `repeats` that
    items made a second time were the same, and drew on no generator at all, `shared_state`
    why worker processes cannot simply take the dataset over (an open file, a lock), "" if
    nothing stands against it; all None where not looked at.
    `item_threads` is how many threads making items used at most in the training process,
    `worker_threads` how many computed in a worker, `init` the head of the user's `worker_init_fn`,
    `length` how long the sequences
    of items are, None where they hold none that batches pad; `accesses` is how items got at
    their data.
    """

    where: Site | None = None
    role: Literal["training", "evaluation", ""] = ""
    dataset: str = ""
    item: Site | None = None
    iterable: bool = False
    sharded: bool | None = None  # an iterable dataset that asks which worker it is in
    batches: int | None = None
    batch_size: int | None = None
    workers: int = 0
    pin_memory: bool = False
    persistent_workers: bool = False
    prefetch_factor: int | None = None
    start_method: str = ""
    shuffled: bool = False
    sampler: str = ""
    built: int = 1
    random: bool | None = None
    repeats: bool | None = None
    shared_state: str | None = None
    item_threads: int | None = None
    worker_threads: int | None = None
    init: Site | None = None
    length: ItemLength | None = None
    accesses: tuple[Access, ...] = ()
