"""Drivers of PyTorch loops: over a `DataLoader`, and with batches of their own making."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..process.process import Unseen
from ..timing.drivers.driver import Driver
from ..timing.drivers.loop_drivers import IteratorDriver, UpdateDriver
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
        self.loops.detail.start(asked=self.loader is not None)

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

    def _iterate(self, dataset: Any) -> Any:
        """An iterator of PyTorch's own: one of a subclass may be a generator."""
        base: Any = sys.modules["torch"].utils.data.DataLoader
        return base.__iter__(dataset) if isinstance(dataset, base) else iter(dataset)

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


class TorchUpdateDriver(UpdateDriver, TorchDriver):
    """A loop that makes its own batches: `x, y = get_batch()`."""
