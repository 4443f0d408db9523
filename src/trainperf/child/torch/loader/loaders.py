"""Each place where `DataLoader`s were built, and which of them trains."""

from __future__ import annotations

import glob
import sys
import time
from collections.abc import Callable
from typing import Any

from ...process.patching import replace
from ...process.process import Attempt
from . import datasets, settings, sharing
from .places import Place, key_of


def record(driver: Any) -> None:
    """Record an event `torch_loader` for each place where loaders were built.

    What timing the stages found (`driver.loader_facts`) goes with the loader of the
    training loop, which comes first; a step may take batches from others beside it. Those that
    Keras makes of what else `fit` was given are not the user's.
    """
    if driver.kind == "fit" and driver.loader is None:
        return
    places: dict[Any, Place] = getattr(driver.loops, "loader_places", {})
    driver.loaders_known = _known(driver)
    training = driver.loader
    own = key_of(getattr(training, "_trainperf_site", None)) if training is not None else None
    source = _source(places, own, training) if training is not None else None
    if training is not None and source is None and own not in places:
        _write(driver, None, training, "training")
    feeder = own if source is None else source
    beside = {
        key_of(getattr(one, "_trainperf_site", None))
        for one in getattr(driver, "companions", list)()
    }
    for key, place in sorted(places.items(), key=lambda each: each[0] != feeder):
        feeds = training is not None and key == feeder
        loader = training if feeds else place.loader()
        role = "training" if feeds or key in beside else ""
        if place.iterated and not role and key != own:
            role = "evaluation"
        _write(driver, place, loader, role)


def record_again(driver: Any) -> None:
    """Record them anew if epochs that have ended since built or opened more of them."""
    if _known(driver) != getattr(driver, "loaders_known", None):
        record(driver)


def _known(driver: Any) -> list[tuple[int, bool]]:
    places: dict[Any, Place] = getattr(driver.loops, "loader_places", {})
    return [(place.built, place.iterated) for place in places.values()]


def _source(places: dict[Any, Place], own: Any, training: Any) -> Any:
    """The place of the user's own loader that a library made the training loader from."""
    if own in places and places[own].direct:
        return None
    dataset = id(training.dataset), type(training.dataset)
    found = [key for key, one in places.items() if one.direct and one.dataset == dataset]
    return found[-1] if found else None


def _write(driver: Any, place: Place | None, loader: Any, role: str) -> None:
    fields: dict[str, Any] = dict(place.settings) if place is not None else {}
    if loader is not None:
        fields |= settings.settings_of(loader)
        fields["batches"] = settings.batches_of(loader)
    if place is not None:
        fields |= {"where": place.where, "built": place.built, "given": place.given}
        fields["shared_state"] = place.shared_state
        if not place.direct and place.where is not None:
            fields["where"] = {name: place.where[name] for name in ("file", "line", "function")}
    if loader is not None:
        fields |= _looked_into(driver, loader, fields.get("shared_state"))
    if loader is not None and loader is driver.loader:
        fields |= getattr(driver, "loader_facts", {})
    driver.record.write("torch_loader", role=role, **fields)


def _looked_into(driver: Any, loader: Any, shared: str | None) -> dict[str, Any]:
    """Facts that only a loader that is still there can tell, bounded in time."""
    found: dict[str, Any] = {}
    looks: dict[str, Callable[[], Any]] = {
        "sharded": lambda: datasets.sharded(loader),
        "shared_state": lambda: _shared(loader, shared),
    }
    for name, look in looks.items():
        with Attempt(driver.process, f"{name} of a DataLoader"):
            found[name] = look()
    return found


def _shared(loader: Any, found: str | None) -> str:
    if found is None:
        found = sharing.shared_state(loader.dataset)
    if not found and loader.num_workers == 0 and settings.start_method(loader) != "fork":
        found = sharing.unpicklable(
            loader.dataset, collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn
        )
    return found


# The worker processes of a `DataLoader`: they record nothing; how long they take to start.


LEAST_S = 1.0
"""With less time left no workers are started: ending them can take a moment as well."""


def watch(loops: Any, module: Any) -> None:
    """Have worker processes record nothing; `module` is torch's `_utils.worker`.

    The wrapper stands under the original's name: spawn and forkserver pickle it by that
    name, and find the wrapper of the worker's own training there.
    """

    def make(original: Any) -> Any:
        def _worker_loop(*args: Any, **kwargs: Any) -> Any:
            try:
                if sys.modules["multiprocessing"].parent_process() is not None:
                    loops.training.helps()
            except Exception:
                pass  # a worker has nobody to tell
            return original(*args, **kwargs)

        return _worker_loop

    replace(module, "_worker_loop", make)


BUSY = 0.1
"""A worker's thread that ran for so much of the time of its busiest computes. One that hands
batches over was seen to run for 2 to 5 %, and for more where they cost nothing: two are one."""


def first_batch(loader: Any, deadline: float) -> tuple[float, int | None]:
    """Seconds from opening a loader with workers to its first batch; `deadline` bounds them.

    With it come the threads that computed in a worker meanwhile, at most.
    Its workers are started once more beside the user's own, and ended again. The caller puts the
    random streams back, the loader's own generator is put back here. Raises RuntimeError with why.
    """
    if getattr(loader, "persistent_workers", False):
        raise RuntimeError("its workers are kept, and start but once")
    left = deadline - time.monotonic()
    if left < LEAST_S:
        raise RuntimeError("no time was left to start workers once more")
    generator = loader.generator
    state = generator.get_state() if generator is not None else None
    iterator: Any = None
    try:
        began = time.monotonic()
        iterator = loader._get_iterator()
        if not iterator._timeout:
            iterator._timeout = max(LEAST_S, deadline - time.monotonic())
        next(iterator)
        seconds = time.monotonic() - began
        return seconds, busy_threads(iterator)
    except StopIteration:
        raise RuntimeError("it has no batch") from None
    finally:
        if iterator is not None:
            shut_down(iterator)
        if state is not None:
            generator.set_state(state)


def busy_threads(iterator: Any) -> int | None:
    """How many threads computed in the busiest worker of an iterator, None if nobody counts."""
    most = max(_busy_threads(worker.pid) for worker in iterator._workers)
    return (most if most > 2 else 1) if most else None


def _busy_threads(pid: int) -> int:
    ran = [0]
    for task in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(task, encoding="ascii") as file:
                ran.append(int(file.read().split()[0]))
        except (OSError, ValueError, IndexError):  # it has ended, or the kernel does not count
            continue
    return sum(time_s >= BUSY * max(ran) > 0 for time_s in ran)


def shut_down(iterator: Any) -> None:
    """End the workers of an iterator now, rather than when it is collected."""
    close = getattr(iterator, "_shutdown_workers", None)
    if close is not None:
        close()
        # What `Process` keeps for joining would else live as long as the iterator's cycle.
        iterator._task_info = {}
