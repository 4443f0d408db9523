"""Keras's `fit` on JAX, whose step is one compiled function: what is known of it and its device."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..tensorflow.models import steps_per_execution
from ..timing import batches
from ..timing.device.clock import HostClock
from ..timing.drivers.fit_driver import FitDriver
from ..timing.loops import Loops

if TYPE_CHECKING:
    from ..timing.driven_loop import DrivenLoop
    from ..timing.training import Training


class JaxClock(HostClock):
    """JAX queues its work on every device: `last` is what the latest step gives.

    It has no events in Python, so times are taken from two lengths in turn.
    """

    last: Any = None

    @property
    def name(self) -> str:
        """Whose clock the times are from, and how."""
        return super().name + ", from two lengths in turn"

    @property
    def asynchronous(self) -> bool:
        """Work is queued."""
        return True

    @property
    def marks(self) -> bool:
        """No mark is queued with it."""
        return False

    def wait(self) -> None:
        """Wait until the latest step was done."""
        if self.last is not None:
            sys.modules["jax"].block_until_ready(self.last)


class JaxBatches:
    """Batches of NumPy's arrays and JAX's, and the iterators that Keras makes for JAX."""

    dataset_of = staticmethod(batches.dataset_of)
    same_dataset = staticmethod(batches.same_dataset)
    undistributed = staticmethod(batches.undistributed)
    fresh = staticmethod(batches.fresh)

    @staticmethod
    def size_in_bytes(batch: Any) -> int:
        """The bytes of all arrays of a batch."""
        return sum(int(leaf.nbytes) for leaf in leaves(batch))


def leaves(batch: Any) -> Iterator[Any]:
    """The arrays of a batch."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for part in batch:
            yield from leaves(part)
    elif hasattr(batch, "nbytes"):
        yield batch


class KerasIterator:
    """Hands Keras the batches of an iterator that it made for JAX."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def __iter__(self) -> KerasIterator:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)


class JaxLoops(Loops):
    """The loops of Keras's `fit` on JAX."""

    name = "jax"
    batches = JaxBatches()

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self.device: JaxClock = JaxClock(self.process.clock)
        self._taken = 0
        watched = {"__next__": self.watching(KerasIterator.__next__)}
        self.iterator_class = type("KerasIterator", (KerasIterator,), watched)

    def passive(self) -> bool:
        """Whether what happens now is trainperf's own, or another thread's."""
        return self.process.off or threading.get_ident() != self.main

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """As in every loop; other iterators than training's are evaluation's."""
        if self.epochs is None or not self.epochs.feeds:
            return original(iterator)
        batch = super().next(iterator, original)
        self._taken += 1
        return batch

    def iterator_driver(self, iterator: Any) -> FitDriver:
        """A driver of `fit`: no other loop is seen."""
        return FitDriver(self, iterator)

    def fitted(self, model: Any, result: Any, begins: bool, seconds: float) -> None:
        """The train function returned its logs and its state after so many seconds.

        `begins` says that the means in its logs began anew with this call.
        """
        logs, _ = result
        taken, self._taken = self._taken, 0
        self.device.last = logs
        if self.training.driver is not None:
            self.training.driver.busy += seconds
        self.update()
        if self.losses is not None:
            self.losses.fitted(model, logs, taken, begins)

    def weights_updated(self, key: Any) -> None:
        """An optimizer is applied while a step is traced: `fitted` counts the steps."""

    def steps_per_call(self, driver: Any) -> int:
        """The `steps_per_execution` of the model."""
        return steps_per_execution(driver.model)

    def facts(self, driver: Any) -> dict[str, Any]:
        """Size and kind of the batch."""
        found: dict[str, Any] = {
            "updates_per_step": 1,
            "epochs_ended": driver.epochs_ended,
            "replicas": 1,
        }
        arrays = list(leaves(driver.batch))
        if arrays and arrays[0].shape:
            found["batch_size"] = int(arrays[0].shape[0])
            found["batch_bytes"] = self.batches.size_in_bytes(driver.batch)
            found["batch_dtypes"] = sorted({str(one.dtype) for one in arrays})
        return found

    def record_facts(self, driver: DrivenLoop) -> None:
        """Record the version and the devices."""
        jax: Any = sys.modules["jax"]
        devices = [one for one in jax.local_devices() if one.platform == "gpu"]
        driver.record.write(
            "framework",
            name="jax",
            version=str(jax.__version__),
            keras=str(sys.modules["keras"].__version__),
            legacy=False,
            cuda=None,
            gpus=[_gpu(number, one) for number, one in enumerate(devices)],
            logical=1,
        )

    def probes(self, driver: DrivenLoop, deadline: float) -> None:
        """None: the step is one compiled function."""


def _gpu(number: int, device: Any) -> dict[str, Any]:
    """A GPU as JAX tells of it; without a distribution Keras trains on the first."""
    return {
        "number": number,
        "name": device.device_kind,
        "uuid": None,
        "memory": None,
        "capability": getattr(device, "compute_capability", None),
        "used": number == 0,
    }


def watch_iterators(loops: JaxLoops) -> Callable[[Any], Any]:
    """Make the wrapper of what opens an iterator over batches for Keras."""

    def make(original: Any) -> Any:
        def _get_iterator(self: Any) -> Any:
            return loops.iterator_class(iter(original(self)))

        return _get_iterator

    return make
