"""Which `DataLoader`s a program builds, where, and how; which of them trains; their workers."""

from __future__ import annotations

import glob
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from ...process import frames
from ...process.patching import after, around, before
from ...process.process import Attempt
from . import settings


class Place:
    """The loaders that one call of the user's built; `reference` is the last of them.

    `direct` says that the call is that of the loader's class; a library built it otherwise.
    """

    def __init__(self, where: dict[str, Any] | None, direct: bool) -> None:
        self.where = where
        self.direct = direct
        self.built = 0
        self.iterated = False
        self.settings: dict[str, Any] = {}
        self.dataset: tuple[int, type] | None = None
        self.shared_state: str | None = None
        self.reference: Callable[[], Any] = lambda: None


def watch_places(loops: Any, module: Any) -> None:
    """Note where loaders are built and which are iterated; `module` is torch's `dataloader`.

    Each loader gets `_trainperf_site`, a site or None.
    """

    def built(loader: Any, *args: Any, **kwargs: Any) -> None:
        frame, _ = frames.users_frame()
        # Past `__setattr__`, which subclasses may have made their own.
        loader.__dict__["_trainperf_site"] = where = frames.site(frame)
        key, caller = _key(loader), sys._getframe(2)  # beyond the hook
        if key not in loops.loader_places:
            loops.loader_places[key] = Place(where, _is_direct(loader, caller, frame))
        place = loops.loader_places[key]
        place.built += 1
        place.dataset = id(loader.dataset), type(loader.dataset)
        place.settings = settings.settings_of(loader)
        place.reference = weakref.ref(loader)

    def iterated(loader: Any) -> None:
        place = loops.loader_places.get(_key(loader))
        if place is not None and not place.iterated:
            place.iterated = True
            place.settings["batches"] = settings.batches_of(loader)
            # Before any item was made: what a dataset opens when first asked, each worker opens.
            place.shared_state = settings.shared_state(loader.dataset)

    cls, process = module.DataLoader, loops.process
    after(process, cls, "__init__", "where a DataLoader is built", built)
    before(process, cls, "_get_iterator", "which DataLoader is iterated", iterated)


def _key(loader: Any) -> tuple[Any, ...] | None:
    where = getattr(loader, "_trainperf_site", None)
    return None if where is None else (where["file"], where["line"], where.get("col"))


def _is_direct(loader: Any, caller: FrameType | None, users: FrameType | None) -> bool:
    """Whether all that stands between the user's call and the loader constructs the loader."""
    while caller is not None and caller is not users:
        if frames.first_argument(caller) is not loader:
            return False
        caller = caller.f_back
    return users is not None


def record(driver: Any) -> None:
    """Record an event `torch_loader` for each place where loaders were built.

    What timing the stages found (`driver.loader_facts`) goes with the loader of the
    training loop, which comes first; a step may take batches from others beside it. Those that
    Keras makes of what else `fit` was given are not the user's.
    """
    if driver.kind == "fit" and driver.loader is None:
        return
    places: dict[Any, Place] = driver.loops.loader_places
    driver.loaders_known = _known(driver)
    training = driver.loader
    own = feeder = _key(training)
    if training is not None and not (own in places and places[own].direct):
        # The place of the user's own loader that a library made the training loader from.
        dataset = id(training.dataset), type(training.dataset)
        found = [key for key, one in places.items() if one.direct and one.dataset == dataset]
        feeder = found[-1] if found else own
        if feeder not in places:
            _write(driver, None, training, "training")
    beside = {_key(one) for one in getattr(driver, "companions", list)()}
    for key, place in sorted(places.items(), key=lambda each: each[0] != feeder):
        feeds = training is not None and key == feeder
        role = "training" if feeds or key in beside else ""
        if place.iterated and not role and key != own:
            role = "evaluation"
        _write(driver, place, training if feeds else place.reference(), role)


def record_again(driver: Any) -> None:
    """Record them anew if epochs that have ended since built or opened more of them."""
    if _known(driver) != getattr(driver, "loaders_known", None):
        record(driver)


def _known(driver: Any) -> list[tuple[int, bool]]:
    return [(place.built, place.iterated) for place in driver.loops.loader_places.values()]


def _write(driver: Any, place: Place | None, loader: Any, role: str) -> None:
    fields: dict[str, Any] = dict(place.settings) if place is not None else {}
    if place is not None:
        fields |= {"where": place.where, "built": place.built, "shared_state": place.shared_state}
        if not place.direct and place.where is not None:
            fields["where"] = {name: place.where[name] for name in ("file", "line", "function")}
    if loader is not None:
        fields |= settings.settings_of(loader) | {"batches": settings.batches_of(loader)}
        with Attempt(driver.process, "sharded of a DataLoader"):
            fields["sharded"] = settings.sharded(loader)
        with Attempt(driver.process, "shared_state of a DataLoader"):
            if fields.get("shared_state") is None:
                fields["shared_state"] = settings.shared_state(loader.dataset)
        if loader is driver.loader:
            fields |= getattr(driver, "loader_facts", {})
    driver.record.write("torch_loader", role=role, **fields)


# The worker processes of a `DataLoader`: they record nothing.


def watch(loops: Any, module: Any) -> None:
    """Have worker processes record nothing; `module` is torch's `_utils.worker`.

    The wrapper stands under the original's name: spawn and forkserver pickle it by that
    name, and find the wrapper of the worker's own training there.
    """

    @around(loops.process, module, "_worker_loop", ours=True)
    def _worker_loop(original: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if sys.modules["multiprocessing"].parent_process() is not None:
                loops.training.helps()
        except Exception:
            pass  # a worker has nobody to tell
        return original(*args, **kwargs)


BUSY = 0.1
"""A worker's thread that ran for so much of the time of its busiest computes. Those that hand
batches over, and the memory they lie in, were seen to run for 2 to 5 % each, and for more where
batches cost nothing: three are one."""


def busy_threads(workers: list[Any]) -> int | None:
    """How many threads computed in the busiest of worker processes, None if nobody counts."""
    most = 0
    for worker in workers:
        ran = [0]
        for task in glob.glob(f"/proc/{worker.pid}/task/*/schedstat"):
            # One may have ended, or the kernel does not count.
            with suppress(OSError, ValueError, IndexError), open(task, encoding="ascii") as file:
                ran.append(int(file.read().split()[0]))
        most = max(most, sum(time_s >= BUSY * max(ran) > 0 for time_s in ran))
    return (most if most > 3 else 1) if most else None
