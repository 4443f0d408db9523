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
from typing import TYPE_CHECKING, Any

from .calls import Calls
from .driven_loop import DrivenIterator, FitEpochs
from .framework import Framework
from .in_place import InPlace
from .loop import WARM_UP

if TYPE_CHECKING:
    from .training import Training

BARE_UPDATES = 3
"""So many updates without a batch from an iterator, and the loop makes its own batches."""
LONG_STEP_S = 5.0
"""One is enough where the next comes so long after it: a step of the warm-up."""


class Loops(Framework):
    """The state that a framework's hooks share: which calls and iterators are the training loop.

    `depth` is above 0 inside a step that is one call: what happens there belongs to the step.
    `epochs` are those of Keras's `fit` where it takes its batches one by one from Python.
    """

    def __init__(self, training: Training) -> None:
        self.training = training
        self.process = training.process
        self.losses = training.losses
        self.in_place = InPlace(training)
        self.calls = Calls(self.process, self.in_place)
        self.main = threading.main_thread().ident
        self.depth = 0
        self.applying = 0
        self.updates = 0
        self.sites: dict[tuple[str, int], Any] = {}  # where an object was built or compiled
        self.fit_call: Any = None
        self.compile_arguments: dict[int, dict[str, Any]] = {}
        self.callback_costs: dict[int, Any] = {}
        self.epochs: FitEpochs | None = None
        self._nexts = 0
        self._bare = 0
        self._bare_at = math.inf
        self._bare_s = 0.0
        self._asked: dict[int, int] = {}
        self._first_update = False

    # ------------------------------------------------------------ from the hooks

    def applies(self, optimizer: Any) -> None:
        """Keras applies an optimizer."""

    def watching(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Make the wrapper of an iterator's `__next__`."""

        def __next__(iterator: Any) -> Any:  # noqa: N807
            if self.passive():
                return original(iterator)
            return self.next(iterator, original)

        return __next__

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """A `next(iterator)` of the user's loop."""
        self._nexts += 1
        driver = self.training.driver
        if isinstance(driver, DrivenIterator) and driver.loops is self:
            if driver.owns(iterator):
                return driver.next(iterator, original)
            if driver.companion(iterator):
                return driver.next_companion(iterator, original)
        if driver is None or driver.stale() or _mistaken(driver):
            seen = getattr(iterator, "_trainperf_updates", None)
            dataset = id(self.batches.dataset_of(iterator))
            if seen is None and driver is None:  # opened anew for each batch
                seen = self._asked.get(dataset)
            if seen is not None and self.updates > seen:
                if driver is not None:
                    driver.interrupted()
                self.training.driver = made = self.iterator_driver(iterator)
                return made.next(iterator, original)
            self._asked[dataset] = self.updates
        iterator._trainperf_updates = self.updates
        batch = original(iterator)
        if driver is None:
            iterator._trainperf_last = self.batches.fresh(batch)
        return batch

    def update(self, counts: bool = True) -> None:
        """Count an update of the weights that has just ended."""
        self.updates += 1
        if not self._first_update:
            self._first_update = True
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

    def fit_begins(self) -> None:
        """Keras's `fit` is called."""

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


def _mistaken(driver: Any) -> bool:
    """Whether a loop of many updates a batch was taken for one without an iterator."""
    return bool(driver.kind == "update" and driver.plan.phase == WARM_UP)
