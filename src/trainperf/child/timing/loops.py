"""Which iterators and updates make up the training loop, whatever the framework.

A step is an update of the weights. An iterator that is asked for a batch, and again
after an update, feeds the training loop; where updates come without any iterator, the
loop makes its own batches.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..process.process import Attempt
from .calls import Calls
from .loop import WARM_UP

if TYPE_CHECKING:
    from .device import HostClock
    from .training import Training

BARE_UPDATES = 3
"""So many updates without a batch from an iterator, and the loop makes its own batches."""
LONG_STEP_S = 5.0
"""One is enough where the next comes so long after it: a step of the warm-up."""

Extra = tuple[str, Callable[[float], None]]
"""A measurement behind all blocks: its name, and its function, which is given a deadline."""


class Tracer(Protocol):
    """The tracer of a framework; a `short` trace is made without `--trace` as well, to be read.

    `late` says that the first step under it is none of the usual ones: it pays, or was queued
    before; `full` that so much was traced that it takes long to read more.
    """

    short: bool
    late: bool

    @property
    def full(self) -> bool:
        return False

    def refusal(self, asked: bool) -> str:
        """Why it cannot be used now, "" if it can; whether its file was `asked` for."""

    def outside(self, act: Callable[[], None]) -> None:
        """At a step's end, call `act` now, or as soon as no mark of the framework's is open."""
        act()

    def start(self) -> None: ...

    def step(self, number: int) -> AbstractContextManager[Any]:
        """The mark of a step, as the framework's own tools know steps."""

    def stop(self) -> None:
        """Wait for the devices, and stop."""

    def drop(self) -> None:
        """At a step's end, take out what is left of it in the program."""
        return

    def read(self) -> None:
        """Record what was traced, by the user's lines."""

    def save(self, file: str) -> str:
        """Write what was traced as a Chrome trace; return what is to be said of it, or ""."""


class Loops:
    """What is asked of a framework, the same of TensorFlow and PyTorch, and what its hooks share.

    `depth` is above 0 inside a step that is one call: what happens there belongs to the step.
    `compiling` says that this call was traced, and what was compiled runs for the first time.
    `epochs` are those of Keras's `fit` where it takes its batches one by one from Python.
    """

    name: str
    batches: Any
    """The framework's module of the functions below, with `size_in_bytes` of a batch."""
    device: HostClock
    shared_input = ""
    """Why the input of one rank cannot be drained alone; "" if it can."""
    probes_in_step = False
    """Whether several ranks can make `probes`: all of them the same ones, at the same time."""
    closes_late = False
    """Whether to close an iterator whose epoch we broke off may take what no spent one takes."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.process = training.process
        self.losses = training.losses
        self.calls = Calls(training)
        self.main = threading.main_thread().ident
        self.depth = 0
        self.compiling = False
        self.applying = 0
        self.updates = 0
        self.sites: dict[tuple[str, int], Any] = {}  # where an object was built or compiled
        self.fit_call: Any = None
        self.compile_arguments: dict[int, dict[str, Any]] = {}
        self.callback_costs: dict[int, Any] = {}
        self.epochs: Any = None
        self._nexts = 0
        self._bare = 0
        self._bare_at = math.inf
        self._bare_s = 0.0
        self._asked: dict[int, int] = {}

    # ------------------------------------------------------- asked for by the drivers

    passive: Any
    """Whether what happens now is none of the loop's own."""
    facts: Any
    """Of a driver: size and kind of the batch, steps of an epoch, replicas."""
    record_facts: Any
    """Of a driver: record what is known of models, device and settings."""
    stages: Any
    """Of a driver, until a deadline: time the stages of the input."""
    probes: Any
    """Of a driver, until a deadline: time the step against variations of it."""
    iterator_driver: Any
    """Of an iterator: a driver for the loop that takes its batches from it."""
    update_driver: Any
    """Of nothing: a driver for a loop that makes its own batches."""
    exchange: Any = None
    """The exchange of gradients with other processes or replicas, None without one.

    `off()` computes without it from there on, and returns "" or why that cannot be; `on()`
    exchanges again.
    """

    def world(self) -> dict[str, Any] | None:
        """This process's place among those that train together, None where there are none."""
        return None

    def exchange_extras(self, driver: Any) -> list[Extra]:
        """Measurements of the exchange alone; the ranks make them in step."""
        return []

    def batches_of_pass(self, dataset: Any) -> float | None:
        """How many batches come of one pass over what a dataset repeats, if it does."""
        return None

    def tracer(self, driver: Any) -> Tracer | None:
        """The framework's own tracer."""
        return None

    def steps_per_call(self, driver: Any) -> int:
        """Steps of the model in one call of what is timed as a step."""
        return 1

    def step_begins(self, driver: Any) -> None:
        """A step of the loop begins."""

    # ------------------------------------------------------------ from the hooks

    def applies(self, optimizer: Any) -> None:
        """Keras applies an optimizer."""

    def batch(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        """A `next(iterator)` of the program's."""
        return original(iterator) if self.passive() else self.next(iterator, original)

    def opening(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Make the wrapper of a dataset's `__iter__`."""

        def __iter__(dataset: Any) -> Any:  # noqa: N807
            with Attempt(self.process, "the loop's own iterator"):
                driver: Any = self.training.driver
                ours = driver is not None and driver.loops is self and driver.kind == "iterator"
                if ours and not self.passive() and (held := driver.held(dataset)) is not None:
                    return held
            return original(dataset)

        return __iter__

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """A `next(iterator)` of the user's loop."""
        self._nexts += 1
        driver: Any = self.training.driver
        if driver is not None and driver.loops is self:
            if driver.owns(iterator):
                return driver.next(iterator, original)
            if driver.companion(iterator):
                return driver.next_companion(iterator, original)
        # A loop of many updates a batch may have been taken for one without an iterator.
        mistaken = driver is not None and driver.kind == "update" and driver.plan.phase == WARM_UP
        if driver is None or driver.stale() or mistaken:
            seen = getattr(iterator, "_trainperf_updates", None)
            dataset = id(self.batches.dataset_of(iterator))
            if seen is None and driver is None:  # opened anew for each batch
                seen = self._asked.get(dataset)
            if seen is not None and self.updates > seen:
                if driver is not None:
                    driver.interrupted()
                self.training.driver = driver = self.iterator_driver(iterator)
                return driver.next(iterator, original)
            self._asked[dataset] = self.updates
        iterator._trainperf_updates = self.updates
        batch = original(iterator)
        if driver is None:
            iterator._trainperf_last = self.batches.fresh(batch)
        return batch

    def update(self, counts: bool = True) -> None:
        """Count an update of the weights that has just ended."""
        self.updates += 1
        if self.updates == 1:
            self.process.record.write("first_update", cpu=sum(os.times()[:4]))
            self.process.record.flush()
        if counts:
            self._nexts = 0

    def bare_update(self, key: Any) -> None:
        """An update outside of any call that could be taken for a step; `key` names it."""
        driver: Any = self.training.driver
        if driver is not None and driver.kind == "update":
            driver.updated(key)
        elif self.makes_batches():
            if driver is not None:
                driver.interrupted()
            self.training.driver = driver = self.update_driver()
            if self._bare_s > LONG_STEP_S:
                driver.plan.step_ended(self._bare_s)
        self.update()

    def makes_batches(self) -> bool:
        """Count an update; whether so many came without a batch that the loop makes its own."""
        driver = self.training.driver
        if self._nexts == 0 and (driver is None or driver.stale()):
            self._bare += 1
            before, self._bare_at = self._bare_at, self.process.clock()
            self._bare_s = self._bare_at - before
            return self._bare > (1 if self._bare_s > LONG_STEP_S else BARE_UPDATES)
        self._bare = 0
        return False


# The drivers' questions to batches and iterators, whatever the framework.


def dataset_of(iterator: Any) -> Any:
    """The dataset or loader an iterator was made from, or None."""
    found = getattr(iterator, "_trainperf_dataset", None)
    return found if found is not None else getattr(iterator, "_dataset", None)


def same_dataset(one: Any, other: Any) -> bool:
    """Whether two datasets are the same object, or built by the same call."""
    if one is other:
        return True
    site = getattr(one, "_trainperf_site", None)
    return site is not None and site == getattr(other, "_trainperf_site", None)


def undistributed(dataset: Any) -> Any:
    """The user's own dataset in one that a strategy made of it; here, the dataset itself."""
    return dataset


def fresh(batch: Any) -> Any:
    """The batch in new containers, so that a loop may take them apart; tensors shared."""
    if isinstance(batch, dict):
        return type(batch)((key, fresh(value)) for key, value in batch.items())
    if isinstance(batch, list):
        return [fresh(value) for value in batch]
    if type(batch) is tuple:
        return tuple(fresh(value) for value in batch)
    return batch
