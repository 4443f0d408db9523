"""A loop that is driven, and what driving takes from its kind.

Whatever leads a loop through its phases knows it by this: `Driver` is its base.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..job.ranks import World
    from ..process.process import Process
    from ..process.recorder import Recorder
    from ..reads.files import FileReads
    from .device.clock import DeviceClock


Extra = tuple[str, Callable[[float], None]]
"""A measurement behind all blocks: its name, and its function, which is given a deadline."""


class Exchange(Protocol):
    """The exchange of gradients with other processes or replicas."""

    def off(self) -> str:
        """Compute without it from here on; return "" or why that cannot be."""

    def on(self) -> None:
        """Exchange again."""


class Tracer(Protocol):
    """The tracer of a framework, for `--trace`."""

    def refusal(self) -> str:
        """Why it cannot be used now, "" if it can."""

    def start(self) -> None:
        """Begin to trace."""

    def step(self, number: int) -> AbstractContextManager[Any]:
        """The mark of a step, as the framework's own tools know steps."""

    def stop(self) -> None:
        """Wait for the devices, and stop."""

    def save(self, file: str) -> str:
        """Write what was traced as a Chrome trace; return what is to be said of it, or ""."""


class FitCycles(Protocol):
    """The observer of a `fit` that is called again and again."""

    def fit_begins(self) -> None:
        """It is called once more."""

    def step(self, same: bool) -> None:
        """A step of a `fit` begins; whether it is that of the same model."""

    def fit_ended(self, sure: bool) -> None:
        """It returned; whether it surely is called again."""

    def between(self) -> bool:
        """Whether what stands between two of its calls is timed now."""

    def lay_aside(self, seconds: float) -> None:
        """Leave seconds out of that time."""


class FitEpochs(Protocol):
    """The loop of Keras's `fit`, as the driver of its batches asks for it.

    `feeds` says that what is asked for a batch now is asked for training's.
    """

    feeds: bool

    @property
    def model(self) -> Any:
        """The model that is trained."""

    @property
    def source(self) -> Any:
        """The dataset or loader that the user gave, None for arrays and generators."""

    @property
    def stopped(self) -> bool:
        """Whether the input gives no batch before it is begun again."""

    def again(self) -> Any:
        """Begin another epoch of the input; return its iterator, or None if there is none."""

    def facts(self, driver: Any) -> dict[str, Any]:
        """The arguments of the call of `fit`, and the steps of an epoch."""

    def record(self, driver: Any) -> None:
        """Record what is known of the model and its callbacks."""

    def stages(self, driver: Any, deadline: float) -> None:
        """Time the stages of the input."""


class DrivenLoop:
    """A loop under way; subclasses say of their kind of loop what does not hold for most.

    `kind` names the loop ("fit", "iterator", "call", "update"); `plan` says which phase a step
    belongs to; `busy` are the seconds of a step within its own call, and `disturbed` says that
    it is none of the usual ones, `evaluated` that the script evaluated or saved its model in it;
    `extras` are measured once all blocks are done; `restarts` are the seconds that opening the
    input again took in the last `pull`.
    """

    kind = ""
    process: Process
    record: Recorder
    reads: FileReads
    clock: Callable[[], float]
    device: DeviceClock
    world: World | None
    plan: Any
    busy: float
    disturbed: bool
    evaluated: bool
    cycles: FitCycles | None
    epochs_ended: int
    epoch_batches: int | None  # those of an epoch that was seen whole, as far as it was timed
    restarts: float
    extras: list[Extra]

    @property
    def wants_more(self) -> bool:
        """Whether the loop should not end yet."""
        raise NotImplementedError

    @property
    def ending(self) -> bool:
        """Whether epochs are ended so that what follows can be timed."""
        raise NotImplementedError

    def steps_left(self) -> int | None:
        """How many steps it has left before it ends for good; None where that is not known."""
        return None

    def counts_callbacks(self) -> bool:
        """Whether what a callback costs now is what it costs in a usual step."""
        raise NotImplementedError

    def loop_over(self) -> None:
        """The loop ended by itself."""

    def interrupted(self) -> None:
        """The process ends."""

    def stale(self) -> bool:
        """Whether the loop has not asked for a step for a while: it is over."""
        raise NotImplementedError

    def between(self) -> bool:
        """Whether an epoch has ended, and the next has not begun."""
        raise NotImplementedError

    def beside_steps(self) -> bool:
        """Whether all else is measured, and what stands beside the steps is timed now."""
        return False

    def lay_aside_of_gap(self, seconds: float) -> None:
        """Leave seconds out of what passes now between two epochs, or two calls of `fit`."""

    def leave(self, now: float) -> float | None:
        """The loop was left at `now`, to be entered again; seconds since its last step."""
        raise NotImplementedError

    def serves(self, owner: Any) -> bool:
        """Whether this driver times the loop of `owner` (a model, a function)."""
        return False

    def pull(self, count: int) -> int:
        """Take up to `count` batches from the input, no model; return how many came.

        What opening the input again takes, to its first batch, goes into `restarts`.
        """
        raise NotImplementedError

    def prepare_resident(self) -> str:
        """Get the batches to replay; return "" or why there are none."""
        raise NotImplementedError

    def batch_bytes(self) -> int | None:
        """Bytes of the last batch; None where it is not seen."""
        return None

    def sync(self) -> None:
        """Wait until the device has done what was queued."""

    def describe(self) -> dict[str, Any]:
        """Facts about the loop that are known once it runs."""
        return {}

    def framework_world(self) -> dict[str, Any] | None:
        """This process's place in its job as the framework tells it, None where it does not."""
        return None

    def find_exchange(self) -> Exchange | None:
        """The switch of the exchange of gradients, None if there is none."""
        return None

    def exchange_extras(self) -> list[Extra]:
        """Measurements of the exchange alone; the ranks make them in step."""
        return []

    def last_extras(self) -> list[Extra]:
        """The last measurements of all."""
        return []

    def tracer(self) -> Tracer | None:
        """The tracer of such a loop's steps, None where there is none."""
        return None

    @property
    def probes_in_step(self) -> bool:
        """Whether several ranks can make the probes of such a loop in step."""
        return False

    def probe_names(self) -> tuple[str, ...]:
        """The names of what probes of such a loop record, for where none of them is made."""
        return ()

    def buffered(self) -> int:
        """How many batches may be ready before anything is drained."""
        return 0

    def profile_begins(self) -> None:
        """Steps whose times enter no figure begin."""

    def profile_ends(self) -> None:
        """Steps whose times enter no figure are over."""

    def source(self) -> Any:
        """The dataset or loader that the user made for the loop, None if it has none."""
        return None

    def steps_per_call(self) -> int:
        """Steps of the model in one call of what is timed as a step."""
        return 1

    def calls(self) -> list[dict[str, Any]]:
        """The script's calls besides its steps since this was asked last."""
        return []

    def can_end(self) -> bool:
        """Whether the loop can be let end here, to see what comes between epochs."""
        return True

    def ending_begins(self) -> None:
        """All is measured but what comes between epochs."""

    def ending_ends(self) -> None:
        """The ends of epochs were seen."""


class DrivenIterator(DrivenLoop):
    """A loop under way that takes its batches from an iterator; `loops` are its framework's."""

    loops: Any

    def owns(self, iterator: Any) -> bool:
        """Whether an iterator is the loop's own."""
        raise NotImplementedError

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch for the user's loop."""
        raise NotImplementedError

    def companion(self, iterator: Any) -> bool:
        """Whether an iterator is taken from once in each step beside the loop's own."""
        raise NotImplementedError

    def next_companion(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch of a companion."""
        raise NotImplementedError
