"""The driver of Keras's `fit` where it takes its batches from Python: on PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .iterator_driver import IteratorDriver

if TYPE_CHECKING:
    from ..loops import Loops


class FitDriver(IteratorDriver):
    """Keras's `fit`, which counts its own steps: `epochs` tells it when an epoch is over."""

    kind = "fit"

    def __init__(self, loops: Loops, iterator: Any) -> None:
        assert loops.epochs is not None
        self.epochs: Any = loops.epochs
        self.model = self.epochs.model
        super().__init__(loops, iterator)
        # Before the probes: whatever time is left, facts are recorded.
        self.extras.insert(-1, ("facts", lambda deadline: self.epochs.record(self)))

    @property
    def given(self) -> Any:
        """The iterator that Keras holds."""
        return self._iterator

    def serves(self, owner: Any) -> bool:
        """Whether this driver times the loop of a model."""
        return owner is self.model

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """As in every loop; an input that Keras has stopped is begun again as one that is over."""

        def taken(source: Any) -> Any:
            if self.epochs.stopped:
                raise StopIteration
            return original(source)

        return super().next(iterator, taken)

    def companion(self, iterator: Any) -> bool:
        """Keras takes from one iterator only."""
        return False

    def describe(self) -> dict[str, Any]:
        """As in every loop, and what `fit` was given."""
        return super().describe() | {"batches_per_step": 1, **self.epochs.facts(self)}

    def dataset(self) -> Any:
        """The user's own: Keras wraps it."""
        return self.epochs.source

    @property
    def loader(self) -> Any:
        """The user's `DataLoader`, None where there is none: Keras makes some of its own."""
        return self.dataset() if type(self.dataset()).__name__ == "DataLoader" else None

    def can_end(self) -> bool:
        """Keras's own loop can be told that the epoch is over."""
        return True

    def end_epoch(self) -> bool:
        """Not where Keras asks for a batch: it would say that the input ran out of data."""
        return False

    def fit_epoch_over(self) -> bool:
        """Whether Keras is to be told, as it asks for the next step, that the epoch is over."""
        return super().end_epoch()

    def _feeds(self, dataset: Any) -> bool:
        return bool(self.epochs.feeds)

    def _open_again(self) -> Any:
        return self.epochs.again()

    def _time_stages(self, deadline: float) -> None:
        self.epochs.stages(self, deadline)
