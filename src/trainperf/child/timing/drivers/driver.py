"""Drive a training loop through its phases from the place where it asks for a step.

A step begins where the loop asks for one and ends where it asks for the next, both on the
clock of its devices: a mark is queued there. Nothing waits between two steps that count; when
a block is over its marks are read. What trainperf does at a step's end counts for nobody: a
mark is made again afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...job import ranks
from ...process import frames
from ...process.collecting import Collections
from ...process.process import Attempt
from .. import completing, cycles, tracing
from ..device import HostClock, LateSteps, Mark, StepTimes
from ..loop import DONE, INPUT, PROFILE, REAL, RESIDENT, WARM_UP
from ..phases import Exhausted, Phases
from ..schedule import plan_of

if TYPE_CHECKING:
    from ...job.ranks import World
    from ..loops import Extra, Loops, Tracer

ONE_OFF_TRACES = 3
"""So many steps that traced are left out of the times (the odd last batch); from then
on tracing is part of what a step costs."""
ONE_OFF_FIRSTS = 3
"""So many steps right after the input was opened, with no other between them, are left
out of the times; from then on an epoch has but one step, and opening is part of it."""

SHORTEST_PASS = 20
"""Passes over what is repeated that have fewer batches are a part of what steps cost."""


class Driver:
    """Base of the drivers: counting, phases, epochs. Subclasses say how to pull and replay.

    `kind` names the loop ("fit", "iterator", "call", "update"), `phases` are those it can be put
    through; `plan` says which phase a step belongs to; `busy` are the seconds of a step within its
    own call, and `disturbed` says that it is none of the usual ones, `evaluated` that the script
    evaluated or saved its model in it; `extras` are measured once all blocks are done; `restarts`
    are the seconds that opening the input again took in the last `pull`.
    """

    kind = ""

    def __init__(self, loops: Loops, phases: tuple[str, ...]) -> None:
        training, process = loops.training, loops.process
        self.loops: Any = loops  # with what only the framework's own drivers know
        self.batches = loops.batches
        self.batch: Any = None
        self.training = training
        self.process = process
        self.reads = training.reads
        self.record = process.record
        self.clock = process.clock
        self.device: HostClock = loops.device
        with Attempt(process, "finding the job's ranks"):  # known once its group was made
            training.world = ranks.find(process, training.world, loops.world)
        self.world: World | None = training.world
        self.plan: Any = plan_of(self, phases)
        self.plan.queues = self.device.asynchronous
        self.busy = 0.0
        self.disturbed = self.evaluated = self._evaluated_before = False
        self.epochs_ended = 0
        self.restarts = 0.0
        self.extras: list[Extra] = []
        self._at: Mark | None = None
        self._gap_from: Mark | None = None
        self._gap_aside_s = 0.0
        self._times = StepTimes(self.device, self.record)
        self._warming = LateSteps(self.device)
        self._first = False
        self._firsts = 0
        self._reopened_at: Mark | None = None
        self._closed = False
        self._broken = False
        self._traced = 0
        self._own = 0.0
        self._collections = Collections()
        if not self.plan.counts_only:
            self._collections.watch()
        self._epoch_ends = cycles.EpochEnds(self)
        self._of_epoch = self._of_source = 0
        self._pass: float | None = None  # batches of one pass over what the input repeats
        self._passes_of: Any = None
        self.epoch_batches: int | None = None  # those of an epoch that was seen whole
        self.cycles: cycles.Cycles | None = None
        self.tracing: tracing.Tracing | None = None
        self._phases = Phases(self)
        self.extras.append(("facts", lambda deadline: loops.record_facts(self)))
        self.record.write(
            "loop",
            kind=self.kind,
            phases=list(phases),
            clock=self.device.name,
            framework=loops.name,
            where=frames.here(),
        )
        self.reads.begin()
        self.record.write("phase", p=WARM_UP, b=0)

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
        found: dict[str, Any] = self.loops.facts(self)
        return found

    def dataset(self) -> Any:
        """The dataset or loader the loop iterates, or None."""
        return None

    def recent_batches(self) -> list[Any]:
        """The last few batches that were seen."""
        return [] if self.batch is None else [self.batch]

    def buffered(self) -> int:
        """How many batches may be ready before anything is drained."""
        return 0

    def tracer(self) -> Tracer | None:
        """The tracer of such a loop's steps, None where there is none."""
        found: Tracer | None = self.loops.tracer(self)
        return found

    def exchange_extras(self) -> list[Extra]:
        """Measurements of the exchange alone; the ranks make them in step."""
        return list(self.loops.exchange_extras(self))

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
        found: list[dict[str, Any]] = self.loops.calls.take()
        return found

    # ----------------------------------------------------------------- the loop

    @property
    def resident(self) -> bool:
        """Whether the step that begins now gets replayed batches."""
        return bool(self.plan.phase == RESIDENT)

    @property
    def wants_more(self) -> bool:
        """Whether the loop should not end yet."""
        return (bool(self.plan.wants_more) and not self._closed) or self.tracing is not None

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
        aside = self._first or self._reopened_at is not None
        now = self._mark(self.plan.phase == WARM_UP or aside)
        if self._at is not None:
            self._step_ended(self._at, now)
        elif self._gap_from is not None:
            if self.tracing is None:
                self._times.gap(self._gap_from, now, self._gap_aside_s)
            self._epoch_ends.gap()
            self._gap_from = None
            self._first = True
        elif self._reopened_at is not None:
            self._times.lay_aside(self._reopened_at, now)  # the old iterator's end
        self._gap_aside_s = 0.0
        self._reopened_at = None
        if self._phases.exchange is None and self.plan.phase == WARM_UP:
            self._phases.look_for_exchange()
        if self.plan.arrived() and self.plan.phase not in (INPUT, DONE):
            self._end_block(now)
        while self.plan.phase == INPUT:
            self._phases.drain()
        if self.plan.phase == DONE and not self._closed:
            self._complete()
        if self.tracing is not None and not self.tracing.boundary():
            self._between_epochs()
        if not self.plan.settling and self.plan.block.started is None:
            # The block has settled: its times begin at a mark, within a running pipeline.
            self._own = 0.0
            self.calls()  # those of the steps before it
            self.plan.begin_if_settled()
            self._at = self._mark(alone=True)
            self._times.begin(self._at)
        else:
            self._own += self.clock() - now.host
            self._at = self._mark(self._first)
        self.busy = 0.0
        self.disturbed = self.evaluated = False

    def _mark(self, alone: bool) -> Mark:
        """A mark; where none is queued with the work, what is timed `alone` is waited for."""
        if alone and not self.device.marks:
            self.device.wait()
        return self.device.mark()

    def epoch_ended(self, at: float, complete: bool = True) -> None:
        """The input ran out at `at`; `complete` says that a step ended there."""
        if self.plan.as_written:  # what follows, up to the next step, is part of this one
            self.epochs_ended += 1
            return
        now = self._mark(alone=True) if self.device.asynchronous else Mark(at)
        self._of_epoch = 0
        self.epochs_ended += 1
        if self._at is not None and complete:
            self._step_ended(self._at, now)
        self._at = None
        self._gap_from = now
        self._times.epoch(now)

    def opens_again(self) -> None:
        """The input is about to be opened again by us, within a step that counts for nobody."""
        if self._at is not None and not self.device.marks:
            self._at = self._mark(alone=True)

    def took(self, batches: int) -> None:
        """So many batches came from the input."""
        self._of_epoch += batches
        self._of_source += batches

    def _opened(self, dataset: Any) -> None:
        """Another iterator, over `dataset`, feeds the loop."""
        self._of_source = 0
        if dataset is self._passes_of:
            return
        self._passes_of, self._pass = dataset, None
        with Attempt(self.process, "the passes of a dataset that is repeated"):
            self._pass = self.loops.batches_of_pass(dataset)

    def _begins_step_with(self, batches: int, late: int = 0) -> None:
        """A step begins that takes so many batches; up to so many were `late`, unseen before.

        Where the input begins another pass over what it repeats, a shuffle fills its buffer: the
        step is the first one of an epoch, whatever the loop calls one.
        """
        if self._pass is None or self._pass < SHORTEST_PASS or self.plan.whole_epochs:
            return
        if self._of_source and -self._of_source % self._pass < batches + late:
            self._first = True

    def _ran_dry(self) -> None:
        """The input has no more: what was taken since it was opened is an epoch of it."""
        if self._of_epoch:
            self.epoch_batches = max(self.epoch_batches or 0, self._of_epoch)
        self._of_epoch = 0

    def epoch_reopened(self) -> None:
        """The input was opened again by us, so that the loop goes on where it would have ended."""
        self._ran_dry()
        self.epochs_ended += 1
        self._times.epoch(self.device.mark())
        if self.plan.phase == INPUT:
            self._times.read()  # the devices are idle, and what was drained is told next
        self.reopened()

    def ran_out(self, at: float, complete: bool = False) -> None:
        """The input ran out at `at`, and cannot be opened again."""
        self._ran_dry()
        self.epoch_ended(at, complete)
        if self.tracing is not None:
            self.tracing.end("the input ran out")
            self._between_epochs()

    @property
    def ending(self) -> bool:
        """Whether epochs are ended so that what follows can be timed."""
        return self._epoch_ends.under_way

    def end_epoch(self) -> bool:
        """Whether the loop is to end its epoch now, so that what follows can be timed."""
        if self._gap_from is not None or not self._epoch_ends.due:
            return False
        self.epoch_ended(self.clock())
        return True

    def counts_callbacks(self) -> bool:
        """Whether what a callback costs now is what it costs in a usual step."""
        return self.plan.phase in (REAL, RESIDENT)

    def beside_steps(self) -> bool:
        """Whether all else is measured, and what stands beside the steps is timed now."""
        if self.cycles is not None and self.cycles.between():
            return True
        return self.ending and self.between()

    def lay_aside_of_gap(self, seconds: float) -> None:
        """Leave seconds out of what passes now between two epochs, or two calls of `fit`."""
        if self.cycles is not None and self.cycles.between():
            self.cycles.lay_aside(seconds)
        else:
            self._gap_aside_s += seconds

    def reopened(self) -> None:
        """The input was opened again by us: the next step pays for its first batch.

        It is one like the others where slices hold whole epochs: that is what they are to time.
        """
        if self.plan.whole_epochs:
            return
        self._gap_from = None
        self._first = True
        self._reopened_at = self._mark(alone=True)

    def stale(self) -> bool:
        """Whether the loop has not asked for a step for a while: it is over."""
        if self._closed and not self.ending:
            return False
        since = self._gap_from if self._at is None else self._at
        quiet = max(3.0, 20 * self.plan.step_estimate())
        return since is not None and self.clock() - since.host > quiet

    def between(self) -> bool:
        """Whether an epoch has ended, and the next has not begun."""
        return self._gap_from is not None

    def loop_over(self) -> None:
        """The loop ended by itself before all was measured: record what is cheap to know."""
        if self.plan.as_written:  # it begins again
            return
        self._phases.end()
        if self.tracing is not None:
            self.tracing.end("the loop ended")
            self.process.finish()
        if self._closed or (self._at is None and self._gap_from is None):
            return
        self._read_last()
        completing.describe_early(self)

    def interrupted(self) -> None:
        """The process ends, or another loop began: keep what the open block has."""
        self._read_last()
        self._phases.end_profile()
        if self.tracing is not None:
            self.tracing.end("the script ended")
        self.record.flush()

    # ------------------------------------------------------------------ internal

    def _read_last(self) -> None:
        with Attempt(self.process, "reading the last times of a loop"):
            self._times.read()

    def _step_ended(self, began: Mark, now: Mark) -> None:
        plan = self.plan
        block = plan.block
        self._collections.step_ended(block.phase in (REAL, PROFILE))
        if self._first:
            self._firsts += 1
            self._first = self._firsts <= ONE_OFF_FIRSTS
        else:
            self._firsts = 0
        if self._first or self._closed:
            if self._first and self.tracing is None:
                self._times.step("first", block.index, began, now, self.busy)
            self._first = False
            self._times.lay_aside(began, now)
            if self._epoch_ends.enough(now.host):
                # The time between epochs is known; where `fit` is called again, that comes next:
                # the epochs that are left of this one end after a step or two until then.
                self._epoch_ends.keep()
                self._times.read()
                if self.cycles is None:
                    self.ending_ends()
                    self.process.finish()
            return
        now_and_then = self.evaluated and not self._evaluated_before and not plan.whole_epochs
        self._evaluated_before = self.evaluated
        if now_and_then and block.phase != WARM_UP:
            self._times.lay_aside(began, now)
            if not plan.counts_only:
                self._times.step("evaluated", block.index, began, now, self.busy)
            return
        self.disturbed |= now_and_then
        if self.disturbed and block.phase != WARM_UP and self._traced < ONE_OFF_TRACES:
            self._traced += 1
            self._times.lay_aside(began, now)
            self._times.step("traced", block.index, began, now, self.busy)
            return
        if not plan.counts_only:
            phase = block.phase + ("~" if plan.settling else "")
            self._times.step(phase, block.index, began, now, self.busy)
        if block.phase == WARM_UP:
            self._warming.append(began, now, not self.disturbed)
            for seconds, usual in self._warming.done():
                if plan.step_ended(seconds, usual=usual):
                    self._warming.clear()
                    self._end_block(now)
        elif plan.step_ended(now.host - began.host, usual=not self.disturbed):
            self._end_block(now)

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
        own = self._own * steps / block.steps
        size = None if self.batch is None else self.batches.size_in_bytes(self.batch)
        self.record.write("block", **at, d=seconds, n=steps, own=own, bytes=size)
        if called and block.phase == REAL:
            self.record.write("calls", b=block.index, n=block.steps, calls=called)

    def _complete(self) -> None:
        """All blocks are done: take the extra measurements, then end the run."""
        self._closed = True
        self._collections.end()
        self.record.write("collections", **self._collections.counted())
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

    def leave(self, now: float) -> float | None:
        """The loop was left at `now`, to be entered again; seconds since its last step, if known.

        From here on its epochs are as long as they are written.
        """
        self._epoch_ends.leave()
        since, self._gap_from, self._at = self._gap_from, None, None
        self._times.read()
        if since is None:
            return None
        return max(0.0, now - self.device.at(since) - self._gap_aside_s)
