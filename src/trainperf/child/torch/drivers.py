"""Drivers of PyTorch loops: over a `DataLoader`, and with batches of their own making."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..process.process import Unseen
from ..timing.drivers.driver import Driver
from ..timing.drivers.loop_drivers import FitDriver, IteratorDriver, UpdateDriver
from . import batches
from .loader import loaders

if TYPE_CHECKING:
    from ..timing.device import Mark
    from ..timing.loops import Loops


class TorchDriver(Driver):
    """Base of the drivers of PyTorch loops."""

    @property
    def loader(self) -> Any:
        """The `DataLoader` that feeds the loop, or None."""
        return None

    def _step_ended(self, began: Mark, now: Mark) -> None:
        if self.loops.compiled():
            self.disturbed = True
        if self.loops.detail is not None:
            self.loops.detail.step_ended(began, now, self._first, self.evaluated)
        super()._step_ended(began, now)

    def profile_begins(self) -> None:
        """Take the steps that follow apart, call by call."""
        from .step.detail import Detail

        self.loops.detail = Detail(self.loops)
        self.loops.detail.start()

    def profile_ends(self) -> None:
        """Leave the steps alone again."""
        detail, self.loops.detail = self.loops.detail, None
        if detail is not None:
            detail.stop()

    def ending_ends(self) -> None:
        """Record the loaders anew if there are more."""
        with Unseen(self.process):
            loaders.record_again(self)


class LoaderDriver(IteratorDriver, TorchDriver):
    """A loop over a `DataLoader`: `for x, y in loader`."""

    def __init__(self, loops: Loops, iterator: Any) -> None:
        super().__init__(loops, iterator)
        self.updates_per_step = 1
        self._beside: dict[int, Any] = {}  # the last iterator over each companion's loader
        self._handed: Any = None
        self._versions: tuple[tuple[int, bool], ...] = ()
        self._written = False

    @property
    def loader(self) -> Any:
        return self._dataset

    @property
    def workers(self) -> list[Any]:
        """The processes that make the loop's batches now."""
        return list(getattr(self._iterator, "_workers", ()))

    def boundary(self) -> None:
        """As in every loop; a step may update several models."""
        if self._seen >= 0:
            self.updates_per_step = max(1, self.loops.updates - self._seen)
        super().boundary()

    def companion(self, iterator: Any) -> bool:
        """As in every loop; each epoch has a new iterator over a companion's loader."""
        loader = self.batches.dataset_of(iterator)
        if not super().companion(iterator):
            known = self._beside.get(id(loader))
            if known is None or self.batches.dataset_of(known) is not loader:
                return False
            iterator._trainperf_last = known._trainperf_last
            self._companions.pop(id(known), None)
            self._companions[id(iterator)] = iterator
        if loader is not None:
            self._beside[id(loader)] = iterator
        return True

    def next_companion(self, iterator: Any, original: Any) -> Any:
        """As in every loop; one that is asked more often than the loop's own is really asked."""
        again = getattr(iterator, "_trainperf_asked", None) == self._replayed
        iterator._trainperf_asked = self._replayed
        if self.resident and again:  # an evaluation over it would have no end
            return original(iterator)
        return super().next_companion(iterator, original)

    def pull(self, count: int) -> int:
        """As in every loop; a companion that ran out is opened again as well."""
        for _ in range(count):
            super().pull(1)
            for key, known in list(self._beside.items()):
                if id(known) in self._companions:
                    continue
                began = self.clock()
                with Unseen(self.process):
                    made = _iterator(self.batches.dataset_of(known))
                try:
                    self._original(made)  # type: ignore[misc]
                except StopIteration:  # it gives its batches a single time
                    del self._beside[key]
                    continue
                self.restarts += self.clock() - began
                made._trainperf_last = known._trainperf_last
                self._companions[id(made)] = self._beside[key] = made
        return count

    def _open_again(self) -> Any:
        return None if self._dataset is None else _iterator(self._dataset)

    def companions(self) -> list[Any]:
        """The loaders from which each step takes a batch beside the loop's own."""
        return [self.batches.dataset_of(one) for one in self._beside.values()]

    def waited(self, seconds: float) -> None:
        super().waited(seconds)
        if self.loops.detail is not None:
            self.loops.detail.add("input", seconds)

    def buffered(self) -> int:
        loader = self._dataset
        workers = getattr(loader, "num_workers", 0)
        return int(workers * (getattr(loader, "prefetch_factor", None) or 2)) if workers else 0

    def replay(self, batch: Any) -> Any:
        """A batch of the ring: with tensors of its own where the loop writes into them."""
        return (batches.cloned if self._written else batches.fresh)(batch)

    def _remember(self, batch: Any) -> None:
        handed = self._handed is not None and not self._written
        if handed and batches.versions(self._handed) != self._versions:
            self._written = True
            self._ring.clear()  # the loop has spoilt them
        if self._written:
            if len(self._ring) != self._ring.maxlen:  # a few will do: clones cost the step
                super()._remember(batches.cloned(batch))
            return
        super()._remember(batches.fresh(batch))
        self._handed, self._versions = self.batch, batches.versions(batch)


def _iterator(loader: Any) -> Any:
    """A new iterator over a loader, of PyTorch's own: one of a subclass may be a generator."""
    base: Any = sys.modules["torch"].utils.data.DataLoader
    return base.__iter__(loader) if isinstance(loader, base) else iter(loader)


class TorchFitDriver(FitDriver, LoaderDriver):
    """Keras's `fit`, which makes a `DataLoader` of whatever it is given."""


class TorchUpdateDriver(UpdateDriver, TorchDriver):
    """A loop that makes its own batches: `x, y = get_batch()`."""
