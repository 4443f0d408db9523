"""One leg of a trial as trainperf sees it: a process tree that runs when it is told to.

Of a job of several ranks all take part: a slice is over when each has done its steps,
it took as long as the slowest of them needed, and its work is that of one rank, as each
step is one of the whole job. What the leg shows of its training is rank 0's.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.child.timing.legs import words
from trainperf.errors import TrainperfError
from trainperf.model import Event, Run
from trainperf.model import Leg as LegSettings
from trainperf.run.event_files import EventFiles
from trainperf.run.spawn import Output, prepare, run_file_of, start
from trainperf.run.stopping import Guard, clear, stop_session
from trainperf.trial.legs.faults import Ended, LegFailed, unpatched, why
from trainperf.trial.legs.ports import with_own_port
from trainperf.trial.legs.processes import Processes
from trainperf.trial.ranks import by_rank

LOOK_EVERY_S = 0.002
"""Looking takes time of a core that the leg may want: at every half millisecond, steps on two
cores took a fifth longer (40.1 against 33.4 ms, two OpenMP threads on two cores)."""
WAKE_AGAIN_S = 0.01
CHECK_EVERY_S = 0.2
"""A leg is seen to be gone, or to need waking, after so long at most; at first much sooner."""
GONE_S = 5.0
"""A process that a driver or a file system does not let go is waited for no longer."""
TOLD_S = 2.0
"""Seconds for the launcher of the ranks to say what became of one that is gone."""
MANY_TURNS = 3
"""A leg whose loop ended after so many turns is worth the start of another one."""
TRIES = 3
"""Ranks count every step of a slice: none may be left to time where an epoch began in it."""
HEARTBEAT = {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "86400"}
"""NCCL's monitor must not take ranks that were stopped for minutes for ones that hang."""


@dataclass(frozen=True)
class Slice:
    """A leg's turn: `steps` turns of its loop in `seconds`.

    `work` is in steps of the unchanged script, of which an update does `each`; `own_s` is what
    trainperf's own hooks took of it, in the mean of the ranks. `epochs` is how often its input was
    opened anew; None where slices do not hold whole epochs. `retries` counts how often the memory
    of its device ran short meanwhile: what that took is no step's.
    """

    seconds: float
    steps: int
    work: float
    own_s: float
    epochs: int | None = None
    retries: int = 0
    each: float = 1.0

    @property
    def updates(self) -> int:
        """How many steps it holds: a turn of the loop may make several."""
        return round(self.work / self.each)

    @property
    def rate(self) -> float:
        """Work per second."""
        return self.work / self.seconds


class Leg:
    """A run that warms up, stops itself, and goes on for a slice at a time.

    `name` is that of the fix it tries. An update of it does `work` times what one of the unchanged
    script does. One that is `slow` to start is given all the time there is. Until it is ready it
    may be paused and let go on. All its processes are gone after `end`.

    `failure` says why it cannot go on. `ready_s` are the seconds from its start to its first slice,
    without those in which others ran instead.
    """

    def __init__(
        self, name: str, run: Run, folder: Path, work: float = 1.0, slow: bool = False
    ) -> None:
        self.name, self.run, self.folder, self.slow = name, run, folder, slow
        self.failure: LegFailed | None = None
        self.turn = 0
        self.work_per_step = self.work = work
        how = run.leg or LegSettings(0)
        self.waits_every, self.settles, self.ranks = how.waits_every, how.settles, how.ranks
        self.started_s = 0.0
        self.ready_s: float | None = None
        self.slowest_s = 0.0  # the longest slice until now
        self._files = EventFiles(folder, self._note)
        self._words: words.Words | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None
        self._log: Output | None = None
        self._processes: Processes | None = None
        self._run_file = run_file_of(folder)
        self._compiled_s = 0.0
        self._seen_s = 0.0
        self._paused_at: float | None = None
        self._idle: list[tuple[float, float]] = []  # paused, or waiting for its device

    # ------------------------------------------------------------------- its life

    def start(self, guard: Guard) -> None:
        """Start the process. A failure to do so is kept in `failure`."""
        self.started_s = self._seen_s = time.monotonic()
        self._guard = guard
        guard.watch(self._run_file)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._words = words.Words(str(self.folder.resolve()), create=True)
            run = with_own_port(self.run, self.ranks > 1)
            if self.ranks > 1:
                run = replace(run, env={**HEARTBEAT, **run.env})
            prepare(run, self.folder)
            self._log = Output(self.folder)
            self._process = start(run, self._run_file, self._log.file)
            self._processes = Processes(self._process.pid, self._run_file)
        except (TrainperfError, OSError) as error:
            self.failure = LegFailed(f"could not be started: {error}")
            return
        guard.watch(self._run_file, self._process.pid)

    @property
    def alive(self) -> bool:
        """Whether it was started and has not failed."""
        return self._process is not None and not self.failure

    @property
    def ran_out(self) -> bool:
        """Whether its loop ended by itself, as the script has it, after a good many turns."""
        return isinstance(self.failure, Ended) and self.turn >= MANY_TURNS

    @property
    def events(self) -> dict[int, list[Event]]:
        """The events of its processes until now, by process id."""
        return self._files.events

    @property
    def trained(self) -> Sequence[Event]:
        """The events of the process that trains, rank 0's of several; empty if none does yet."""
        return next(iter(by_rank(self.events).values()), [])

    @property
    def starting(self) -> bool:
        """Whether it has yet to stand at its first slice, started or not."""
        return self.ready_s is None and not self.failure

    def _says(self, word: int) -> bool:
        return self._words is not None and bool(self._words[word])

    @property
    def has_device(self) -> bool:
        """Whether it was let use its device."""
        return self._says(words.GO)

    @property
    def waits_for_device(self) -> bool:
        """Whether it is about to use its device for the first time, and was not let yet."""
        return self._says(words.DEVICE) and not self.has_device

    @property
    def compiles(self) -> bool:
        """Whether it is compiling now."""
        return self._says(words.COMPILES)

    @property
    def warms(self) -> bool:
        """Whether it makes its first steps: what it imports, and its data, are there."""
        return self.starting and self._says(words.WARMS) and not self.compiles

    @property
    def may_pause(self) -> bool:
        """Whether nothing is spoilt if it stands still: kernels are chosen by timing them."""
        return not self.has_device or self.compiles

    def give_device(self) -> None:
        """Let it use its device: all others there stand still until it has warmed up."""
        assert self._words is not None
        self._idle.append((self._words[words.DEVICE] / words.PER_S, time.monotonic()))
        self._words[words.GO] = 1

    def give_up(self, failure: LegFailed) -> None:
        """End it as one that failed."""
        self.failure = failure
        self.end()

    def pause(self) -> None:
        """Stop all of it as it starts."""
        if self._processes is None or self._paused_at is not None:
            return
        self._processes.find(())
        self._processes.stop()
        self._paused_at = time.monotonic()

    def go_on(self) -> None:
        """Let it go on where it was paused."""
        if self._paused_at is None or self._words is None or self._processes is None:
            return
        now = time.monotonic()
        self._idle.append((self._paused_at, now))
        self._words[words.PAUSED] += int((now - self._paused_at) * words.PER_S)
        self._paused_at, self._seen_s = None, now
        self._processes.wake()

    def own_s(self, moment: float) -> float:
        """Seconds from its start to a moment in which it could run."""
        idle, until = 0.0, self.started_s
        for since, end in sorted(self._idle):  # it may be paused while it waits for its device
            end = min(end, moment)
            idle += max(0.0, end - max(since, until))
            until = max(until, end)
        return moment - self.started_s - idle

    @property
    def spent_s(self) -> float:
        """Seconds since its start in which it could have made steps, so that nothing held it up."""
        until = self._seen_s
        if self._words is not None and self.waits_for_device:
            until = self._words[words.DEVICE] / words.PER_S
        return self.own_s(until) - self._compiled_s

    def look(self) -> bool:
        """Whether it waits for a turn; what went wrong is in `failure`."""
        if not self.alive:
            return False
        self._pass_time()
        if self._is_over():
            return True
        self._look_for_failure()
        if self._log is not None:
            self._log.look()
        return False

    def end(self) -> None:
        """Stop all its processes, stopped ones as well, and forget its scratch files."""
        process, self._process = self._process, None
        if process is not None:
            stop_session(process.pid, self._run_file)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GONE_S)
            self._files.read()
            self._files.remove_temporary(all_made=True)
        if self._log is not None:
            self._log.file.close()
        if self._words is not None:
            self._words.close()
        self._words = self._log = None
        clear(str(self.folder.resolve()))
        if self._guard is not None:
            self._guard.forget(self._run_file)

    # --------------------------------------------------------------------- its turn

    def arrived(self) -> None:
        """It has warmed up and waits: stop all of it, and read what its loop is.

        Raises `LegFailed` if another number of its processes train than in the observed run.
        """
        assert self._words is not None
        assert self._processes is not None
        self.ready_s = self.own_s(time.monotonic())
        self._files.read()
        several = len(by_rank(self.events))
        if several > self.ranks or several < self.ranks > 1:
            seen = "one did" if self.ranks == 1 else f"{self.ranks} did"
            self._fail(f"{several} processes train; in the observed run {seen}")
        self._processes.find(by_rank(self.events))
        self._words[words.ALONE] = int(self.ranks == 1)
        self._words[words.GO] = 1  # a device that it uses only later, nobody would give it
        self._processes.stop()
        path = unpatched(self.run.sources, self.events)
        if path is not None:
            self._fail(f"the change did not take effect: {path} is not run by Python's import")
        for event in self.trained:
            if event["e"] == "leg":
                self.work_per_step = self.work * float(event["steps_per_call"])

    def run_slice(
        self,
        steps: int,
        settle: int,
        limit_s: float,
        asked: Callable[[], bool],
        holds: int = words.STEPS_ONLY,
    ) -> Slice | None:
        """Let it run `settle` and then `steps` timed turns of its loop, and stop it again.

        The slice `holds` steps, or whole epochs, as the words of a leg say. Returns None if `asked`
        came true meanwhile. Raises `LegFailed` if it ended, or took longer than `limit_s` seconds
        and its start: what it opens anew when an epoch begins was in that as well.
        """
        for _ in range(TRIES if self.ranks > 1 else 1):
            if self._words is None or self._processes is None:  # it was ended meanwhile
                raise self.failure or Ended()
            self.turn += 1
            self._words[words.SETTLE], self._words[words.STEPS] = settle, steps
            self._words[words.EPOCHS], self._words[words.TURN] = holds, self.turn
            began = time.monotonic()
            self._processes.wake()
            self._wait(self._processes, steps, limit_s + (self.ready_s or 0.0), asked)
            self._processes.stop()
            if self._log is not None:
                self._log.look()
            if self._words[words.ANEW]:
                self._fail(Ended())
            if not self._is_over():
                return None
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self._files.read()
            if self._files.lost:
                self._fail(f"its measurements could not be kept: {self._files.lost}")
            ranks = list(by_rank(self.events).values())
            piece = slice_of(ranks, self.turn, self.work_per_step, self.work)
            if piece is not None:
                return piece
        raise LegFailed("the slice left no measurement")

    def _wait(
        self, processes: Processes, steps: int, limit_s: float, asked: Callable[[], bool]
    ) -> None:
        began = time.monotonic()
        check, took_s = began + WAKE_AGAIN_S, 0.0
        self._pass_time()
        while not (self._is_over() or self._says(words.ANEW) or asked()):
            now = time.monotonic()
            if now > check:
                # It may have been stopped by us just before it stopped itself.
                check = now + min(CHECK_EVERY_S, 2 * (now - began))
                self._look_for_failure()
                if self.failure:
                    raise self.failure
                if processes.is_stopped():
                    processes.wake()
            took_s += self._pass_time()  # what it compiles meanwhile, the budget limits
            if took_s > limit_s:
                made = "step" if steps == 1 else f"{steps} steps"
                self._fail(f"made no {made} in {limit_s:.0f} s")
            time.sleep(LOOK_EVERY_S)

    def _pass_time(self) -> float:
        """Seconds since this was asked last, in which it neither waited nor compiled."""
        before, self._seen_s = self._seen_s, time.monotonic()
        passed = self._seen_s - before
        if self.compiles:
            self._compiled_s += passed
        return 0.0 if self.compiles or self.waits_for_device else passed

    def _is_over(self) -> bool:
        """Whether each rank has done its steps."""
        assert self._words is not None
        return all(self._words[words.OVER + rank] > self.turn for rank in range(self.ranks))

    def _fail(self, reason: str | LegFailed) -> None:
        self.failure = LegFailed(reason) if isinstance(reason, str) else reason
        raise self.failure

    def _look_for_failure(self) -> None:
        if self._process is None or self._processes is None:
            return
        status = self._process.poll()
        gone = self._processes.gone() if self.ranks > 1 else []
        if status is None and not gone:
            return
        if gone:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(TOLD_S)  # it may tell what became of the rank
        self._files.read()
        self.failure = why(status, self.events, self.folder, self.ranks, gone)

    def _note(self, event: Event) -> None:
        if event["e"] == "done" and not self.failure:
            self.failure = Ended()


def end_all(legs: Sequence[Leg]) -> None:
    """End legs at the same time: a process on a GPU takes seconds to be gone."""
    with ThreadPoolExecutor(max(1, len(legs))) as pool:
        list(pool.map(lambda leg: leg.end(), legs))


def slice_of(
    ranks: Sequence[Sequence[Event]], turn: int, work_per_step: float, work: float = 1.0
) -> Slice | None:
    """The slice of one turn, from the events of the processes that train, rank 0's first.

    A turn of its loop does `work_per_step`, each update in it `work`.

    None if one of them timed no step in it, as where each opened its input anew. It is
    the slowest rank's; one may have left a step out of its times that others did not.
    """
    written = [_of_turn(events, turn) for events in ranks]
    blocks = [events["block"] for events in written if events.get("block", {"d": 0})["d"] > 0]
    if not blocks or len(blocks) < len(ranks):
        return None
    first, slowest = written[0], max(blocks, key=lambda block: float(block["d"] / block["n"]))
    steps = int(slowest["n"])
    done = work * float(first["work"]["n"]) if "work" in first else steps * work_per_step
    own_s = statistics.fmean(block["own"] / block["n"] for block in blocks) * steps
    epochs = int(first["epochs"]["n"]) if "epochs" in first else None
    retries = sum(int(events["retries"]["n"]) for events in written if "retries" in events)
    return Slice(slowest["d"], steps, done, own_s, epochs, retries, work)


def _of_turn(events: Sequence[Event], turn: int) -> dict[str, Event]:
    """The events of a turn by their kind, among the last of a process."""
    found = dict[str, Event]()
    for event in reversed(events):
        if event["e"] == "block" and event["b"] < turn:
            break
        if event.get("b") == turn:
            found.setdefault(event["e"], event)
    return found
