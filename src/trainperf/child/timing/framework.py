"""The one seam to a framework: what is asked of TensorFlow and of PyTorch, the same of both.

Keras hands its epochs to either. Nothing of a framework is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .device.clock import DeviceClock
    from .driven_loop import DrivenIterator, DrivenLoop, Exchange, Extra, Tracer


class Batches(Protocol):
    """The operations on a framework's batches, iterators and datasets that drivers need."""

    def dataset_of(self, iterator: Any, /) -> Any:
        """The dataset or loader an iterator was made from, or None."""

    def same_dataset(self, one: Any, other: Any, /) -> bool:
        """Whether two datasets are the same object, or built by the same call."""

    def undistributed(self, dataset: Any, /) -> Any:
        """The user's own dataset in one that a strategy made of it, else the dataset itself."""

    def fresh(self, batch: Any, /) -> Any:
        """The batch in new containers, so that a loop may take them apart; tensors shared."""

    def size_in_bytes(self, batch: Any, /) -> int:
        """The bytes of all tensors of a batch."""


class Framework:
    """The interface of a framework to the timing of loops; TensorFlow and PyTorch fill it in."""

    name: str
    batches: Batches
    device: DeviceClock
    probes_in_step = False
    """Whether several ranks can make `probes`: all of them the same ones, at the same time."""
    closes_late = False
    """Whether to close an iterator whose epoch we broke off may take what no spent one takes."""

    def world(self) -> dict[str, Any] | None:
        """This process's place among those that train together, None where there are none."""
        return None

    def passive(self) -> bool:
        """Whether what happens now is none of the loop's own."""
        raise NotImplementedError

    def facts(self, driver: DrivenLoop) -> dict[str, Any]:
        """Size and kind of the batch, steps of an epoch, replicas."""
        raise NotImplementedError

    def record_facts(self, driver: DrivenLoop) -> None:
        """Record what is known of models, device and settings."""
        raise NotImplementedError

    @property
    def exchange(self) -> Exchange | None:
        """The exchange of gradients with other processes or replicas, None without one."""
        return None

    def exchange_extras(self, driver: DrivenLoop) -> list[Extra]:
        """Measurements of the exchange alone."""
        return []

    def last_extras(self, driver: DrivenLoop) -> list[Extra]:
        """The last measurements: what the device gives at best."""
        return []

    def stages(self, driver: DrivenLoop, deadline: float) -> None:
        """Time the stages of the input."""
        raise NotImplementedError

    def probes(self, driver: DrivenLoop, deadline: float) -> None:
        """Time the step against variations of it."""
        raise NotImplementedError

    def probe_names(self) -> tuple[str, ...]:
        """The names of what `probes` may record: of each, where it is missing."""
        return ()

    def tracer(self, driver: DrivenLoop) -> Tracer | None:
        """The framework's own tracer, for `--trace`."""
        return None

    def steps_per_call(self, driver: DrivenLoop) -> int:
        """Steps of the model in one call of what is timed as a step."""
        return 1

    def step_begins(self, driver: DrivenLoop) -> None:
        """A step of the loop begins."""

    def iterator_driver(self, iterator: Any) -> DrivenIterator:
        """A driver for the loop that takes its batches from `iterator`."""
        raise NotImplementedError

    def update_driver(self) -> DrivenLoop:
        """A driver for a loop that makes its own batches."""
        raise NotImplementedError
