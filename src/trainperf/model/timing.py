"""The times of a step, of start-up, of epochs' ends, of probes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from trainperf.model.basics import Missing, Taken, taken


@dataclass(frozen=True)
class Measure:
    """Seconds per step over several blocks of steps.

    `blocks` are the means of the blocks, one to a round in which the phases alternate;
    `seconds` is the mean of the middle ones (a quarter is left out at either end), `low`
    and `high` its 95 % interval from the spread between them, None with fewer than five:
    then the noise is not known. `disturbed` counts those that were left out of all this,
    because neighbours kept the script from its cores and the other blocks are enough.
    """

    seconds: float
    steps: int
    blocks: tuple[float, ...]
    low: float | None = None
    high: float | None = None
    disturbed: int = 0

    @property
    def noise(self) -> float:
        """Half the width of the interval as a share of the mean; 0.10 if unknown."""
        if self.low is None or self.high is None or self.seconds <= 0:
            return 0.10
        return (self.high - self.low) / (2 * self.seconds)


@dataclass(frozen=True)
class Times:
    """The three times of one step: as it is, with free input, and input alone.

    Reading one that was not taken raises `NotMeasured`. `host_` is the part of a
    resident step spent outside the step function: callbacks, Python, logging.
    `waiting_noise` is half the interval of what a step loses against the resident one, as
    a share of the step, from blocks that were neighbours in time; None where fewer than
    five pairs tell of it. `device_s` are the seconds of a step that the devices are busy for at
    least, None where nothing tells: no change of host work makes a step shorter than that.
    """

    real_: Measure | Missing
    resident_: Measure | Missing
    input_: Measure | Missing
    host_: float | Missing
    waiting_noise: float | None = None
    device_s: float | None = None

    @property
    def real(self) -> float:
        """Seconds of one step of the loop as it is."""
        return taken(self.real_).seconds

    @property
    def resident(self) -> float:
        """Seconds of one step when the batch is already there."""
        return taken(self.resident_).seconds

    @property
    def input(self) -> float:
        """Seconds the pipeline needs to deliver one step's data, the model idle."""
        return taken(self.input_).seconds

    host = Taken[float]()

    @property
    def noise(self) -> float:
        """The larger of the real and the resident time's noise, as a share of the real one."""
        if not isinstance(self.real_, Measure) or self.real_.seconds <= 0:
            return 0.10
        measured = (m for m in (self.real_, self.resident_) if isinstance(m, Measure))
        return max(m.noise * m.seconds for m in measured) / self.real_.seconds

    @property
    def loss_noise(self) -> float:
        """The noise of what a step loses to waiting: of neighbouring blocks, where these tell."""
        return self.noise if self.waiting_noise is None else self.waiting_noise

    def as_if_exact(self) -> Times:
        """The same times without their noise: what they would say if they held."""
        return replace(
            self,
            real_=_exact(self.real_),
            resident_=_exact(self.resident_),
            input_=_exact(self.input_),
            waiting_noise=None if self.waiting_noise is None else 0.0,
        )

    def input_free(self) -> Times:
        """The same times as if each batch were there: those of the resident step."""
        return replace(
            self, real_=self.resident_, input_=Missing("as if it took no time"), waiting_noise=None
        )

    def favourable(self) -> Times:
        """The same times at the end of their intervals at which waiting less gains the most.

        A step as long, and its parts as short, as the noise allows: what a change could give
        at most, and the part that is lost to waiting no larger than neighbouring blocks let it
        be. Times whose interval is not known stand as they are.
        """
        real, resident = self.real_, self.resident_
        if isinstance(resident, Measure) and resident.low is not None:
            least = max(0.1 * resident.seconds, resident.low)
            if self.waiting_noise is not None and isinstance(real, Measure) and real.high:
                kept = resident.seconds / real.seconds - self.waiting_noise
                least = min(resident.seconds, max(least, kept * real.high))
            resident = replace(resident, seconds=least)
        if isinstance(real, Measure) and real.high is not None:
            real = replace(real, seconds=real.high)
        return replace(self, real_=real, resident_=resident).as_if_exact()

    def waiting_least(self) -> Times:
        """The same times at the end of their intervals at which a faster step gains the most.

        The opposite end: the less of the real step is waiting, the more of it is the step.
        """
        real, resident, fed = self.real_, self.resident_, self.input_
        if isinstance(real, Measure) and real.low is not None:
            real = replace(real, seconds=max(0.1 * real.seconds, real.low))
        if isinstance(resident, Measure) and resident.high is not None:
            resident = replace(resident, seconds=resident.high)
        if isinstance(fed, Measure) and fed.low is not None:
            fed = replace(fed, seconds=max(0.1 * fed.seconds, fed.low))
        return replace(self, real_=real, resident_=resident, input_=fed).as_if_exact()


def _exact(measure: Measure | Missing) -> Measure | Missing:
    if isinstance(measure, Missing):
        return measure
    return replace(measure, low=measure.seconds, high=measure.seconds)


WIDE = 1.25
"""High end over low end of a probe's interval, above which it limits nothing: on a machine
with other processes 0.62 to 1.27 was read of what gives 1.4 (nanoGPT in bfloat16)."""


@dataclass(frozen=True)
class Probe:
    """The same work timed two ways in alternating blocks, inside the user's process.

    `ratio` is base over candidate (above 1: the candidate is faster), `low`/`high`
    its 95 % interval over the paired blocks: `pairs` of them, in which the candidate did
    `steps`. `one_off_s` is what setting the candidate up cost (tracing, compiling).
    """

    name: str
    base_s: float
    candidate_s: float
    ratio: float
    low: float
    high: float
    one_off_s: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict)
    pairs: int = 0
    steps: int = 0

    @property
    def vague(self) -> bool:
        """Whether noise left its interval so wide that it limits nothing, see `WIDE`."""
        return self.high > WIDE * self.low

    def exact(self, ratio: float) -> Probe:
        """The same as if it had found `ratio`, without noise."""
        return replace(self, candidate_s=self.base_s / ratio, ratio=ratio, low=ratio, high=ratio)


@dataclass(frozen=True)
class Collections:
    """Garbage collections of the interpreter in real steps, timed exactly.

    `seconds` of a step; `full` is how many of them a step has that go through all objects.
    """

    seconds: float
    full: float


@dataclass(frozen=True)
class BetweenEpochs:
    """The time between the last step of an epoch and the first of the next.

    `seconds` in all; the parts are None where they were not seen. `epoch_steps` is
    the length of an epoch in steps, if known.
    """

    seconds: float
    epochs_seen: int
    epoch_steps: int | None = None
    validation_s: float | None = None
    callbacks_s: float | None = None
    restart_s: float | None = None  # opening the iterator, to its first batch
    first_s: float | None = None  # so much longer was the first: it traces the validation

    @property
    def sure(self) -> bool:
        """Whether it was seen twice, or what was seen once is explained by its parts.

        Opening an iterator stalls for seconds now and then (TensorFlow 2.21, two
        cores); one such moment says nothing about the epochs to come.
        """
        parts = sum(part or 0.0 for part in (self.validation_s, self.callbacks_s, self.restart_s))
        return self.epochs_seen > 1 or parts > 0.5 * self.seconds

    def without_tracing(self, startup: StartUp | None) -> BetweenEpochs:
        """The same without the tracing in a validation that was seen once: it comes but once.

        The step of validation takes at most as long to trace as that of training.
        """
        tracing = startup.tracing_s if startup is not None else None
        if self.epochs_seen > 1 or self.validation_s is None or tracing is None:
            return self
        once = min(tracing, self.validation_s)
        return replace(self, seconds=self.seconds - once, validation_s=self.validation_s - once)


@dataclass(frozen=True)
class StartUp:
    """From the start of the process to the end of the first step; seconds.

    `imports_s` is the framework's import, `setup_s` what the script did before its
    first step besides, `tracing_s` the tracing (and compiling) of the step function,
    `first_step_s` the first step with its tracing; `evaluation_s` is the part of the set-up in
    which the model was evaluated before it had trained.
    """

    to_first_step_s: float
    imports_s: float | None = None
    setup_s: float | None = None
    tracing_s: float | None = None
    first_step_s: float | None = None
    evaluation_s: float | None = None
