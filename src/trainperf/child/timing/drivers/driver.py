"""Drive a training loop through its phases from the place where it asks for a step.

A step begins where the loop asks for one and ends where it asks for the next, both on the
clock of its devices: a mark is queued there. Nothing waits between two steps that count; when
a block is over its marks are read. What trainperf does at a step's end counts for nobody: a
mark is made again afterwards.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...job import ranks
from ...process import frames, turns
from ...process.process import Attempt
from .. import completing, cycles, tracing
from ..budget import Budget
from ..device import HostClock, Mark, StepTimes
from ..legs.leg import Slices
from ..loop import DONE, INPUT, PROFILE, REAL, RESIDENT, WARM_UP, Plan, RankPlan
from ..phases import Exhausted, Phases

if TYPE_CHECKING:
    from ...job.ranks import World
    from ..loops import Extra, Loops

ONE_OFF_TRACES = 3
"""So many steps that traced are left out of the times (the odd last batch); from then
on tracing is part of what a step costs."""
ONE_OFF_FIRSTS = 3
"""So many steps right after the input was opened, with no other between them, are left
out of the times; from then on an epoch has but one step, and opening is part of it."""
LAG = 2
"""Steps of a warm-up are told of so many steps later, once their devices have done them: until
then the host waits, so that it does not run ahead of what is not known yet."""
OLDEST = 2
"""The generation whose collection goes through all objects (before Python 3.14 and after)."""


@dataclass
class Span:
    """What passes since a mark, until the loop asks for a step: a step, the gap between two epochs,
    or what opening the input again left to do. `aside_s` of a gap are none of the loop's own."""

    kind: Literal["step", "gap", "opening"]
    since: Mark
    aside_s: float = 0.0


class Driver:
    """Base of the drivers: steps, blocks, phases. Subclasses say how to pull and replay.

    `kind` names the loop ("fit", "iterator", "call", "update"), `phases` are those it can be put
    through; `plan` says which phase a step belongs to; `busy` are the seconds of a step within its
    own call, and `disturbed` says that it is none of the usual ones, `evaluated` that the script
    evaluated or saved its model in it; `left` are the turns that it had left as its first step
    began; `extras` are measured once all blocks are done; `restarts` are the seconds that opening
    the input again took in the last `pull`, and `epoch_batches` the batches of an epoch that was
    seen whole.
    """

    kind = ""
    phases: tuple[str, ...] = ()

    def __init__(self, loops: Loops) -> None:
        training, process = loops.training, loops.process
        self.loops: Any = loops  # with what only the framework's own drivers know
        self.batches = loops.batches
        self.batch: Any = None
        self._ring: Any = ()  # the last few, to be replayed
        self.training = training
        self.process = process
        self.reads = training.reads
        self.record = process.record
        self.clock = process.clock
        self.device: HostClock = loops.device
        with Attempt(process, "finding the job's ranks"):  # known once its group was made
            training.world = ranks.find(process, training.world, loops.world)
        self.world: World | None = training.world
        self.plan: Any = self._plan()
        self.plan.queues = self.device.asynchronous
        self.busy = 0.0
        self.disturbed = self.evaluated = self._evaluated_before = False
        self.epochs_ended = 0
        self.epoch_batches: int | None = None
        self.restarts = 0.0
        self.left: int | None = None
        self.extras: list[Extra] = []
        self._span: Span | None = None
        self._first = False  # the step under way opened its input
        self._firsts = self._traced = 0  # such steps in a row; those that were left out
        self._times = StepTimes(self.device, self.record)
        self._late: deque[tuple[Mark, Mark, bool]] = deque()  # steps of the warm-up, until told
        self._closed = False  # all blocks are done
        self._own = 0.0  # seconds of the block that our hooks took
        self._broken = False
        self._collections = Collections()
        if not self.plan.counts_only:
            self._collections.watch()
        self._epoch_ends = cycles.EpochEnds(self)
        self.cycles: cycles.Cycles | None = None
        self.tracing: tracing.Tracing | None = None
        self._phases = Phases(self)
        self.extras.append(("facts", lambda deadline: loops.record_facts(self)))
        self.record.write(
            "loop",
            kind=self.kind,
            phases=list(self.phases),
            clock=self.device.name,
            framework=loops.name,
            where=frames.here(),
        )
        self.reads.begin()
        self.record.write("phase", p=WARM_UP, b=0)

    def _plan(self) -> Any:
        """The plan of the loop: its own, one that its ranks agree on, slices of a leg."""
        settings = self.process.settings
        if settings.get("leg") is not None:
            return Slices(self, settings["leg"])
        limits = self.clock, Budget.of(self), self.phases
        if self.world is not None:
            return RankPlan(*limits, self.world, self.kind)

        def left() -> int | None:
            with Attempt(self.process, "how many steps the loop has left"):
                return self.steps_left()
            return None

        return Plan(*limits, left=left)

    def sync(self) -> None:
        """Wait until the devices have done what was queued."""
        self.device.wait()

    # ------------------------------------------------------- said of a kind of loop

    def steps_left(self) -> int | None:
        """How many steps it has left before it ends for good; None where that is not known."""
        return None

    def serves(self, owner: Any) -> bool:
        """Whether this driver times the loop of `owner` (a model, a function)."""
        return False

    def owns(self, iterator: Any) -> bool:
        """Whether an iterator is the loop's own."""
        return False

    def companion(self, iterator: Any) -> bool:
        """Whether an iterator is taken from once in each step beside the loop's own."""
        return False

    def pull(self, count: int) -> int:
        """Take up to `count` batches from the input, no model; return how many came.

        What opening the input again takes, to its first batch, goes into `restarts`.
        """
        raise Exhausted

    def prepare_resident(self) -> str:
        """Get the batches to replay; return "" or why there are none."""
        return "its batches are not seen"

    def describe(self) -> dict[str, Any]:
        """Facts about the loop that are known once it runs: batch, epochs, what feeds it."""
        return dict(self.loops.facts(self))

    def dataset(self) -> Any:
        """The dataset or loader the loop iterates, or None."""
        return None

    def recent_batches(self) -> list[Any]:
        """The last few batches that were seen."""
        return list(self._ring) or ([] if self.batch is None else [self.batch])

    def buffered(self) -> int:
        """How many batches may be ready before anything is drained."""
        return 0

    def profile_begins(self) -> None:
        """Steps whose times enter no figure begin."""

    def profile_ends(self) -> None:
        """Steps whose times enter no figure are over."""

    def can_end(self) -> bool:
        """Whether the loop can be let end here, to see what comes between epochs."""
        return True

    def ending_ends(self) -> None:
        """The ends of epochs were seen."""

    def calls(self) -> list[dict[str, Any]]:
        """The script's calls besides its steps since this was asked last."""
        return list(self.loops.calls.take())

    # ----------------------------------------------------------------- the loop

    @property
    def resident(self) -> bool:
        """Whether the step that begins now gets replayed batches."""
        return bool(self.plan.phase == RESIDENT)

    @property
    def wants_more(self) -> bool:
        """Whether the loop should not end yet."""
        return (bool(self.plan.wants_more) and not self._closed) or self.tracing is not None

    @property
    def in_step(self) -> bool:
        """Whether a step is under way."""
        return self._span is not None and self._span.kind == "step"

    def between(self) -> bool:
        """Whether an epoch has ended, and the next has not begun."""
        return self._span is not None and self._span.kind == "gap"

    @property
    def ending(self) -> bool:
        """Whether epochs are ended so that what follows can be timed."""
        return self._epoch_ends.under_way

    def stale(self) -> bool:
        """Whether the loop has not asked for a step for a while: it is over."""
        span = self._span
        if span is None or span.kind == "opening" or (self._closed and not self.ending):
            return False
        return bool(self.clock() - span.since.host > max(3.0, 20 * self.plan.step_estimate()))

    def beside_steps(self) -> bool:
        """Whether all else is measured, and what stands beside the steps is timed now."""
        if self.cycles is not None and self.cycles.between():
            return True
        return self.ending and self.between()

    def lay_aside_of_gap(self, seconds: float) -> None:
        """Leave seconds out of what passes now between two epochs, or two calls of `fit`."""
        if self.cycles is not None and self.cycles.between():
            self.cycles.lay_aside(seconds)
        elif self._span is not None:
            self._span.aside_s += seconds

    def leave(self, now: float) -> float | None:
        """The loop was left at `now`, to be entered again; seconds since its last step, if known.

        From here on its epochs are as long as they are written.
        """
        self._epoch_ends.leave()
        span, self._span = self._span, None
        self._times.read()
        if span is None or span.kind != "gap":
            return None
        return max(0.0, now - self.device.at(span.since) - span.aside_s)

    def loop_over(self) -> None:
        """The loop ended by itself before all was measured: record what is cheap to know."""
        if self.plan.as_written:  # it begins again
            return
        self._phases.end()
        if self.tracing is not None:
            self.tracing.end("the loop ended")
            self.process.finish()
        if not self._closed and (self.in_step or self.between()):
            self._read_last()
            completing.describe_early(self)

    def interrupted(self) -> None:
        """The process ends, or another loop began: keep what the open block has."""
        self._read_last()
        self._phases.end_profile()
        if self.tracing is not None:
            self.tracing.end("the script ended")
        self.record.flush()

    def boundary(self) -> None:
        """The loop asks for its next step: the last one ends, the next one begins.

        A fault of ours ends the measuring, not the user's program.
        """
        if self._broken:
            return
        try:
            self._boundary()
        except Exception as error:
            self.process.failed("timing the loop", error)
            self._broken = self._closed = True
            if self.world is not None and self.process.settings.get("leg") is None:
                self.plan.leave()
            self._collections.end()
            self._phases.end()

    def _boundary(self) -> None:
        plan = self.plan
        span, self._span = self._span, None
        opened = self._first or (span is not None and span.kind == "opening")
        now = self._mark(plan.phase == WARM_UP or opened)
        if span is not None:
            self._ended(span, now)
        elif self.left is None:
            with Attempt(self.process, "how many turns the loop has left"):
                self.left = turns.left()
        if self._phases.exchange is None and plan.phase == WARM_UP:
            self._phases.look_for_exchange()
        if plan.arrived() and plan.phase not in (INPUT, DONE):
            self._end_block(now)
        while plan.phase == INPUT:
            self._phases.drain()
        if plan.phase == DONE and not self._closed:
            self._complete()
        if self.tracing is not None and not self.tracing.boundary():
            self._between_epochs()
        begins = plan.begin_if_settled()
        self._own = 0.0 if begins else self._own + self.clock() - now.host
        if begins:  # its times begin at a mark, within a running pipeline
            self.calls()  # those of the steps before it
        self._span = Span("step", self._mark(begins or self._first))
        if begins:
            self._times.begin(self._span.since)
        self.busy = 0.0
        self.disturbed = self.evaluated = False

    def _mark(self, alone: bool) -> Mark:
        """A mark; where none is queued with the work, what is timed `alone` is waited for."""
        if alone and not self.device.marks:
            self.device.wait()
        return self.device.mark()

    def _ended(self, span: Span, now: Mark) -> None:
        """What passed until now is over: each second of it counts once, or is laid aside."""
        if span.kind == "step":
            self._step_ended(span.since, now)
        elif span.kind == "opening":
            self._times.lay_aside(span.since, now)  # the old iterator's end
        else:
            if self.tracing is None:
                self._times.gap(span.since, now, span.aside_s)
            self._epoch_ends.gap()
            self._first = True

    def _step_ended(self, began: Mark, now: Mark) -> None:
        plan, block = self.plan, self.plan.block
        self._collections.step_ended(block.phase in (REAL, PROFILE))
        unusual = self._unusual()
        if unusual or self._closed:
            self._times.lay_aside(began, now)
            if unusual and self.tracing is None:
                self._times.step(unusual, block.index, began, now, self.busy)
            if self._closed and self._epoch_ends.enough(now.host):
                # The time between epochs is known; where `fit` is called again, that comes next:
                # the epochs that are left of this one end after a step or two until then.
                self._times.read()
                if self.cycles is None:
                    self.ending_ends()
                    self.process.finish()
            return
        if not plan.counts_only:
            phase = block.phase + ("~" if plan.settling else "")
            self._times.step(phase, block.index, began, now, self.busy)
        if block.phase == WARM_UP:
            self._late.append((began, now, not self.disturbed))
            while self._late and (len(self._late) > LAG or self.device.passed(self._late[0][1])):
                first, last, usual = self._late.popleft()
                seconds = self.device.at(last) - self.device.at(first)
                if plan.step_ended(seconds, usual=usual):
                    self._late.clear()
                    self._end_block(now)
        elif plan.step_ended(now.host - began.host, usual=not self.disturbed):
            self._end_block(now)

    def _unusual(self) -> str:
        """Why the step that ends is not like the others and enters no time, "" where it does."""
        first, self._first = self._first, False
        self._firsts = self._firsts + 1 if first else 0
        if first and self._firsts <= ONE_OFF_FIRSTS:
            return "first"
        if self._closed:
            return ""
        timed = self.plan.phase != WARM_UP
        now_and_then = self.evaluated and not self._evaluated_before and not self.plan.whole_epochs
        self._evaluated_before = self.evaluated
        if now_and_then and timed:
            return "evaluated"
        self.disturbed |= now_and_then
        if self.disturbed and timed and self._traced < ONE_OFF_TRACES:
            self._traced += 1
            return "traced"
        return ""

    def _end_block(self, now: Mark) -> None:
        block = self.plan.block
        # Ranks agree on how often a block is taken, whatever each left out of its times.
        any_steps = block.steps or not self.device.marks
        if block.phase != WARM_UP and block.started is not None and any_steps:
            taken = self._times.block(now, block.steps)
            if taken is None:
                self.plan.repeat_doubled()
                return
            if min(taken) > 0:
                self._record_block(*taken)
        else:
            self.calls()  # those of steps that are not timed
            self._times.drop()
        self._phases.next()

    def _record_block(self, seconds: float, steps: int) -> None:
        block, called = self.plan.block, self.calls()
        if not self.plan.counts_only:
            every = self._times.queue.every()
            if every > 1 and self.plan.waits_every(every):
                self.record.write("waits", every=every)
            self.plan.timed(block.phase, seconds, steps)
        at = {"p": block.phase, "b": block.index, "s": block.started}
        size = None if self.batch is None else self.batches.size_in_bytes(self.batch)
        own = self._own * steps / block.steps  # legs tell of it
        self.record.write("block", **at, d=seconds, n=steps, own=own, bytes=size)
        if called and block.phase == REAL:
            self.record.write("calls", b=block.index, n=block.steps, calls=called)

    def _complete(self) -> None:
        """All blocks are done: take the extra measurements, then end the run."""
        self._closed = True
        self._collections.end()
        self.record.write("collections", **self._collections.counted)
        self.device.wait()
        self._times.read()
        if self.device.asynchronous and self.device.marks:
            self.record.write("device", busy=self._times.queue.busy_s())
        completing.describe(self)
        completing.measure(self, completing.extras(self))
        self.tracing = tracing.begin(self)
        if self.tracing is None:
            self._between_epochs()

    def _between_epochs(self) -> None:
        """See what comes between epochs, where one surely follows; then end the run."""
        self.tracing = None
        self.cycles = completing.around(self)
        if self.world is not None:
            self.record.write("missing", what="between epochs", reason=completing.ALONE)
        elif (self.epochs_ended or self.cycles is not None) and self.can_end():
            self._epoch_ends.begin()
            return
        self.process.finish()

    def _read_last(self) -> None:
        with Attempt(self.process, "reading the last times of a loop"):
            self._times.read()


class Collections:
    """Seconds that collections took in steps, and how many went through all objects.

    They stop all threads of Python, whichever one sets them off. `counted` is what so many steps
    took of them.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._full = 0
        self._began: float | None = None
        self.counted = {"seconds": 0.0, "full": 0, "steps": 0}

    def watch(self) -> None:
        """Begin to time them."""
        gc.callbacks.append(self._called)

    def end(self) -> None:
        """Leave the interpreter as it was; more than once does nothing."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def step_ended(self, counts: bool) -> None:
        """Take what was collected since the last step's end as that of a step, if it `counts`."""
        if counts:
            self.counted["seconds"] += self._seconds
            self.counted["full"] += self._full
            self.counted["steps"] += 1
        self._seconds, self._full = 0.0, 0

    def _called(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.monotonic()
        elif self._began is not None:
            self._seconds += time.monotonic() - self._began
            self._full += info.get("generation") == OLDEST
            self._began = None
