"""Drive a training loop through its phases from the place where it asks for a step.

A step begins where the loop asks for one and ends where it asks for the next. What
trainperf does in between counts for nobody: the clock is read again afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..job import ranks
from ..process.stacks import StackSampler
from . import completing, cycles, other_loops, tracing
from .budget import Budget
from .driven import Driven
from .loop import DONE, INPUT, REAL, RESIDENT, WARM_UP, Plan
from .phases import Phases

if TYPE_CHECKING:
    from ..job.ranks import World
    from .driven import Extra
    from .training import Training

ONE_OFF_TRACES = 3
"""So many steps that traced are left out of the times (the odd last batch); from then
on tracing is part of what a step costs."""
ONE_OFF_FIRSTS = 3
"""So many steps right after the input was opened, with no other between them, are left
out of the times; from then on an epoch has but one step, and opening is part of it."""
GAPS = 3
GAPS_S = 3.0
"""So many ends of an epoch are timed; two will do once so many seconds have passed."""

ALONE = "not taken where several processes train together"


class Driver(Driven):
    """Base of the drivers: counting, phases, epochs. Subclasses say how to pull and replay.

    `phases` are those the loop can be put through.
    """

    def __init__(self, training: Training, phases: tuple[str, ...], **facts: Any) -> None:
        process = training.process
        settings = process.settings
        self.training = training
        self.process = process
        self.reads = training.reads
        self.record = process.record
        self.clock = process.clock
        self.world: World | None = self._place()
        self.plan: Any = self._plan(settings, phases)
        self.busy = 0.0
        self.disturbed = False
        self.epochs_ended = 0
        self.restarts = 0.0
        self.ending = False
        self.extras: list[Extra] = []
        self._at: float | None = None
        self._gap_from: float | None = None
        self._first = False
        self._firsts = 0
        self._reopened_at: float | None = None
        self._block_gap = 0.0
        self._closed = False
        self._broken = False
        self._between_seen = False
        self._gaps = 0
        self._traced = 0
        self._ending_from = 0.0
        self._own = 0.0
        self._aside: StackSampler | None = None
        self.cycles: cycles.Cycles | None = None
        self.tracing: tracing.Tracing | None = None
        self._phases = Phases(self)
        self.record.write("loop", kind=self.kind, phases=list(phases), **facts)
        self.reads.begin()
        self.record.write("phase", p=WARM_UP, b=0)

    def _plan(self, settings: dict[str, Any], phases: tuple[str, ...]) -> Any:
        if settings.get("leg") is None:
            limits = (self.clock, Budget.of(self), settings.get("steps"), phases)
            if self.world is None:
                return Plan(*limits)
            from .schedule import RankPlan

            plan: Any = RankPlan(*limits, self.world.agreement(self.kind))
            plan.sync = self.sync
            return plan
        from . import leg

        plan = leg.Slices(self.training, settings["leg"])
        plan.epochs = lambda: self.epochs_ended
        plan.describe = lambda: leg.describe(self)
        return plan

    def _place(self) -> World | None:
        """Where this process stands in its job; known once its group was made."""
        try:
            self.training.world = ranks.find(self.process, self.training.world, self.told_world)
        except Exception as error:
            self.process.failed("finding the job's ranks", error)
        return self.training.world

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
            self._phases.end()

    def _boundary(self) -> None:
        now = self.clock()
        if self._at is not None:
            self._step_ended(self._at, now)
        elif self._gap_from is not None:
            self.record.write("between", s=self._gap_from, seconds=now - self._gap_from)
            self._between_seen = self.ending
            self._gap_from = None
            self._first = True
        elif self._reopened_at is not None:
            self._block_gap += now - self._reopened_at  # the old iterator was torn down
        self._reopened_at = None
        if self._phases.exchange is None and self.plan.phase == WARM_UP:
            self._phases.look_for_exchange()
        if self.plan.arrived() and self.plan.phase not in (INPUT, DONE):
            self._end_block()
        while self.plan.phase == INPUT:
            self._phases.drain()
        if self.plan.phase == DONE and not self._closed:
            self._complete()
        if self.tracing is not None and not self.tracing.boundary():
            self._traced_all()
        if not self.plan.settling and self.plan.block.started is None:
            self.sync()
            self._block_gap = self._own = 0.0
            self.plan.begin_if_settled()
        else:
            self._own += self.clock() - now
        self.busy = 0.0
        self.disturbed = False
        self._at = self.clock()

    def epoch_ended(self, at: float, complete: bool = True) -> None:
        """The input ran out at `at`; `complete` says that a step ended there."""
        self.epochs_ended += 1
        if self._at is not None and complete:
            self._step_ended(self._at, at)
        self._at = None
        self._gap_from = at
        self.record.write("epoch", s=at)

    def ran_out(self, at: float, complete: bool = False) -> None:
        """The input ran out at `at`, and cannot be opened again."""
        self.epoch_ended(at, complete)
        if self.tracing is not None:
            self.tracing.end("the input ran out")
            self._traced_all()

    def end_epoch(self) -> bool:
        """Whether the loop is to end its epoch now, so that what follows can be timed."""
        if not self.ending or self._gap_from is not None or self._between_seen:
            return False
        self.epoch_ended(self.clock())
        return True

    def counts_callbacks(self) -> bool:
        """Whether what a callback costs now is what it costs in a usual step."""
        return self.plan.phase in (REAL, RESIDENT)

    def reopened(self) -> None:
        """The input was opened again by us: the next step pays for its first batch."""
        self._gap_from = None
        self._first = True
        self._reopened_at = self.clock()

    def stale(self) -> bool:
        """Whether the loop has not asked for a step for a while: it is over."""
        if self._closed and not self.ending:
            return False
        since = self._gap_from if self._at is None else self._at
        quiet = max(3.0, 20 * self.plan.step_estimate())
        return since is not None and self.clock() - since > quiet

    def between(self) -> bool:
        """Whether an epoch has ended, and the next has not begun."""
        return self._gap_from is not None

    def loop_over(self) -> None:
        """The loop ended by itself before all was measured: record what is cheap to know."""
        self._phases.end()
        if self.tracing is not None:
            self.tracing.end("the loop ended")
            self.process.finish()
        if self._closed or (self._at is None and self._gap_from is None):
            return
        completing.describe_early(self)

    def interrupted(self) -> None:
        """The process ends: keep what the open block has."""
        self._phases.end_profile()
        if self.tracing is not None:
            self.tracing.end("the script ended")
        self.record.flush()

    # ------------------------------------------------------------------ internal

    def _step_ended(self, began: float, now: float) -> None:
        plan = self.plan
        block = plan.block
        if self._first:
            self._firsts += 1
            self._first = self._firsts <= ONE_OFF_FIRSTS
        else:
            self._firsts = 0
        if self._first or self._closed:
            if self._first:
                self.record.step("first", block.index, began, now, self.busy)
            self._first = False
            self._block_gap += now - began
            if self._between_seen:
                self._gaps += 1
                enough = self._gaps >= GAPS or (
                    self._gaps >= 2 and now - self._ending_from > GAPS_S
                )
                if enough or not self.can_end():
                    self._gaps_seen()
                self._between_seen = False
            return
        if self.disturbed and block.phase != WARM_UP and self._traced < ONE_OFF_TRACES:
            self._traced += 1
            self._block_gap += now - began
            self.record.step("traced", block.index, began, now, self.busy)
            return
        if not plan.counts_only:
            phase = block.phase + ("~" if plan.settling else "")
            self.record.step(phase, block.index, began, now, self.busy)
        if plan.step_ended(now - began, usual=not self.disturbed):
            self._end_block()

    def _end_block(self) -> None:
        block = self.plan.block
        called = self.calls()
        if block.phase != WARM_UP and block.started is not None and block.steps:
            self.sync()
            seconds = self.clock() - block.started - self._block_gap
            if not self.plan.counts_only:
                self.plan.timed(block.phase, seconds, block.steps)
            self.record.write(
                "block",
                p=block.phase,
                b=block.index,
                s=block.started,
                d=seconds,
                n=block.steps,
                own=self._own,
            )
            if called and block.phase == REAL:
                self.record.write("calls", b=block.index, n=block.steps, calls=called)
        self._phases.next()

    def _complete(self) -> None:
        """All blocks are done: take the extra measurements, then end the run."""
        self._closed = True
        completing.describe(self)
        completing.measure(self, self._extras())
        self.tracing = tracing.begin(self)
        if self.tracing is None:
            self._between_epochs()

    def _traced_all(self) -> None:
        self.tracing = None
        self._between_epochs()

    def _between_epochs(self) -> None:
        """See what comes between epochs, where one surely follows; then end the run."""
        self._look_around()
        if self.world is not None:
            self.record.write("missing", what="between epochs", reason=ALONE)
        elif (self.epochs_ended or self.cycles is not None) and self.can_end():
            self.ending = True
            self._ending_from = self.clock()
            self.record.write("phase", p="between", b=0)
            self.record.flush()
            self.calls()  # those until here
            self._aside = StackSampler(cycles.INTERVAL_S, over=lambda: self._gap_from is None)
            self._aside.start()
            self.ending_begins()
            return
        self.process.finish()

    def _look_around(self) -> None:
        """What the script does besides this loop, as far as its source tells."""
        try:
            for one in other_loops.other_loops():
                self.record.write("other", **one)
            self.cycles = cycles.wanted(self)
        except Exception as error:
            self.process.failed("what stands around the loop", error)

    def _gaps_seen(self) -> None:
        """What passes between epochs was timed; where `fit` is called again, that comes next.

        The epochs that are left of this one end after a step or two until then.
        """
        self._end_aside()
        if self.cycles is None:
            self.ending_ends()
            self.process.finish()

    def _end_aside(self) -> None:
        aside, self._aside = self._aside, None
        if aside is not None:
            counts = aside.stop()
            self.record.write("aside", total=aside.samples, stacks=counts, calls=self.calls())

    def leave(self, now: float) -> float | None:
        """The loop was left at `now`, to be entered again; seconds since its last step, if known.

        From here on its epochs are as long as they are written.
        """
        self._end_aside()
        since, self._gap_from, self._at = self._gap_from, None, None
        self.ending = self._between_seen = False
        return None if since is None else now - since

    def _extras(self) -> list[Extra]:
        """What is measured last; several ranks leave out what they cannot do in step."""
        if self.world is None:
            return [*self.exchange_extras(), *self.extras]
        completing.lacks(self, completing.PROBES, ALONE)
        alone = [(name, extra) for name, extra in self.extras if name != completing.PROBES]
        return [*self.exchange_extras(), *alone]
