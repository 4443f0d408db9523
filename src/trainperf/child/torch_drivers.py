"""Drivers of PyTorch loops: over a `DataLoader`, and with batches of their own making."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import torch_batches
from .loop_drivers import IteratorDriver, LoopDriver, UpdateDriver

if TYPE_CHECKING:
    from .torch_loops import TorchLoops


class TorchDriver(LoopDriver):
    """What the drivers of PyTorch loops have in common."""

    @property
    def loader(self) -> Any:
        """The `DataLoader` that feeds the loop, or None."""
        return None

    def _step_ended(self, began: float, now: float) -> None:
        if self.loops.compiled():
            self.disturbed = True
        if self.loops.detail is not None:
            self.loops.detail.step_ended(now - began, usual=not self._first)
        super()._step_ended(began, now)

    def profile_begins(self) -> None:
        """Take the steps that follow apart, call by call."""
        from .torch_detail import Detail

        self.loops.detail = Detail(self.loops)
        self.loops.detail.start()

    def profile_ends(self) -> None:
        """Leave the steps alone again."""
        detail, self.loops.detail = self.loops.detail, None
        if detail is not None:
            detail.stop()

    def ending_begins(self) -> None:
        """See the evaluations that come between epochs."""
        from .torch_detail import Detail

        self.loops.detail = Detail(self.loops)
        self.loops.detail.start()

    def ending_ends(self) -> None:
        """Record the evaluations that came between epochs."""
        detail, self.loops.detail = self.loops.detail, None
        if detail is not None:
            detail.stop_between()


class LoaderDriver(IteratorDriver, TorchDriver):
    """A loop over a `DataLoader`: `for x, y in loader`."""

    def __init__(self, loops: TorchLoops, iterator: Any) -> None:
        super().__init__(loops, iterator)
        self._handed: Any = None
        self._versions: tuple[tuple[int, bool], ...] = ()
        self._written = False

    @property
    def loader(self) -> Any:
        """The `DataLoader` that feeds the loop."""
        return self._dataset

    def waited(self, seconds: float) -> None:
        """The loop waited so long for its batch."""
        if self.loops.detail is not None:
            self.loops.detail.add("input", seconds)

    def buffered(self) -> int:
        """How many batches may be ready before anything is drained."""
        loader = self._dataset
        workers = getattr(loader, "num_workers", 0)
        return int(workers * (getattr(loader, "prefetch_factor", None) or 2)) if workers else 0

    def replay(self, batch: Any) -> Any:
        """A batch of the ring: with tensors of its own where the loop writes into them."""
        if self._written:
            return torch_batches.cloned(batch)
        return torch_batches.fresh(batch)

    def _remember(self, batch: Any) -> None:
        if self._handed is not None and not self._written:
            self._written = torch_batches.versions(self._handed) != self._versions
            if self._written:
                self._ring.clear()  # the loop has spoilt them
        if self._written:
            if len(self._ring) != self._ring.maxlen:  # a few will do: clones cost the step
                super()._remember(torch_batches.cloned(batch))
            return
        super()._remember(torch_batches.fresh(batch))
        self._handed, self._versions = self.batch, torch_batches.versions(batch)


class TorchUpdateDriver(UpdateDriver, TorchDriver):
    """A loop that makes its own batches: `x, y = get_batch()`."""
