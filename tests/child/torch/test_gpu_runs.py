"""What is derived from traces, against what is known of recorded runs on real GPUs.

`data/gpu_runs/README.md` says what that is; all figures here are its own, or sums of the record.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from kit.kineto import ON_DEVICE, Seen, recorded
from trainperf.child.timing.device import HostClock, Mark, StepTimes
from trainperf.child.torch.probes.operator_times import PASS, OperatorTimes
from trainperf.child.torch.step.lines import Reader
from trainperf.evidence.events import read_as
from trainperf.model.torch import Trace

WORKERS_0, WORKERS_4 = "v100_resnet50_workers0", "v100_resnet50_workers4"
HEALTHY, WAITING = "a100_8ranks_healthy", "a100_16ranks_hostbound"
BUSY, FILLS = "v100_2ranks_busy", "v100_resnet_queue_fills"
STARVED = "rtx2080ti_resnet_starved"
STEPS = {WORKERS_0: 6, WORKERS_4: 6, HEALTHY: 6, WAITING: 5, BUSY: 6, FILLS: 5}
SPANS = {
    WORKERS_0: (0.996, 0.606),
    WORKERS_4: (0.802, 0.767),
    HEALTHY: (0.465, 0.836),
    WAITING: (1.231, 0.356),
    BUSY: (0.745, 0.963),
    FILLS: (0.480, 0.984),
    STARVED: (14.5, 0.326),
}
"""Seconds from the first kernel or copy to the last, and the share of them in which any ran."""
CLOSE = 0.02
PAGEABLE, PINNED = "HtoD (Pageable -> Device)", "HtoD (Pinned -> Device)"
EXCHANGE = "record_param_comms"


@cache
def whole(run: str) -> Trace:
    """A run as a single pass."""
    events = recorded(run)
    end = max(seen.at + seen.long for seen in events)
    return _read([*events, Seen(PASS, 0, end + 1, "user_annotation")])


@cache
def by_step(run: str) -> Trace:
    """A run whose steps are the passes."""
    return _read([replace(seen, label=PASS) if _is_step(seen) else seen for seen in recorded(run)])


def _read(events: list[Seen]) -> Trace:
    return read_as(Trace, OperatorTimes(events, "cuda").event())


def _is_step(seen: Seen) -> bool:
    return seen.label.startswith("ProfilerStep#") and seen.kind == "user_annotation"


def seconds(trace: Trace, ends: str) -> float:
    """Seconds of the operators whose names end so."""
    return sum(each.seconds for each in trace.operators if each.name.endswith(ends))


def gaps(trace: Trace) -> tuple[float, float]:
    assert trace.gap_s is not None
    assert trace.unqueued_s is not None
    return trace.gap_s, trace.unqueued_s


# --------------------------------------------------------------- operators, gaps, copies


@pytest.mark.parametrize("run", SPANS)
def test_the_gpu_is_busy_for_its_share_of_the_span(run):
    trace, (span, busy) = whole(run), SPANS[run]
    gap, _ = gaps(trace)
    assert trace.busy_s + gap == pytest.approx(span, rel=CLOSE)
    assert trace.busy_s / (trace.busy_s + gap) == pytest.approx(busy, rel=CLOSE)


@pytest.mark.parametrize("run", STEPS)
def test_what_a_step_started_is_its_work_whenever_the_gpu_comes_to_it(run):
    span, busy = SPANS[run]
    trace = by_step(run)
    assert trace.busy_s * STEPS[run] == pytest.approx(span * busy, rel=CLOSE)
    assert gaps(trace)[0] * STEPS[run] <= span * (1 - busy) * (1 + CLOSE)


@pytest.mark.parametrize("run", [WORKERS_0, WORKERS_4, HEALTHY, STARVED])
def test_a_gpu_that_is_idle_for_the_hosts_sake_had_nothing_queued(run):
    gap, unqueued = gaps(whole(run))
    assert unqueued > 0.85 * gap


def test_a_gpu_that_waits_with_its_work_queued_does_not_wait_for_python():
    # The page calls it host- or launch-bound by its busy share. By the record the main stream is
    # 160 ms behind the host in each step, within CUDA graphs and behind other ranks, and the host
    # waits for it in `cudaMemcpyAsync` for 71 % of the time.
    gap, unqueued = gaps(whole(WAITING))
    assert gap > 0.6 * SPANS[WAITING][0]
    assert unqueued < 0.02 * gap


@pytest.mark.parametrize(
    ("run", "copies"),
    [
        (WORKERS_0, {PAGEABLE: 0.0115, PINNED: 0}),
        (WORKERS_4, {PAGEABLE: 0.0190, PINNED: 0}),
        (STARVED, {PAGEABLE: 0.630, PINNED: 0}),
        (HEALTHY, {PAGEABLE: 0, PINNED: 0.11 * 0.465}),
        (BUSY, {PAGEABLE: 0, PINNED: 0.0666, "DtoD (Device -> Device)": 0.093}),
    ],
)
def test_copies_say_from_where_they_are(run, copies):
    trace = whole(run)
    found = {name: seconds(trace, f"Memcpy {name}") for name in copies}
    assert found == pytest.approx(copies, rel=0.06)


@pytest.mark.parametrize("run", [HEALTHY, BUSY, WAITING])
def test_exchange_is_its_kernels_and_is_nothing_that_compiling_puts_together(run):
    trace = whole(run)
    exchanged = sum(s.long for s in recorded(run) if "nccl" in s.label and s.kind == "kernel") / 1e6
    assert seconds(trace, EXCHANGE) == pytest.approx(exchanged, rel=0.16)  # some began before
    assert trace.fusable_s is not None
    assert trace.fusable_s < trace.operators_s - exchanged
    overlapping = trace.operators_s - trace.busy_s
    assert (overlapping > 0.5 * exchanged) == (run != WAITING)


# ----------------------------------------------------------------- steps by the GPU's clock


class RecordedClock(HostClock):
    """Marks pass when what was started before them is done, as the record has it."""

    asynchronous = True

    def __init__(self, run: str) -> None:
        events = recorded(run)
        started = {s.number: s.at for s in events if s.kind == "cuda_runtime"}
        work = [s for s in events if s.kind in ON_DEVICE]
        self._work = [(started.get(s.number, -1.0), s.at + s.long) for s in work]
        steps = sorted((s.at, s.at + s.long) for s in events if _is_step(s))
        self.marks_of_steps = [Mark(steps[0][0] / 1e6), *(Mark(end / 1e6) for _, end in steps)]

    def at(self, mark: Mark) -> float:
        host = mark.host * 1e6
        return max([host, *(end for began, end in self._work if began < host)]) / 1e6


class Steps:
    """A recorder of steps alone."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def step(self, phase: str, block: int, began: float, ended: float, busy: float) -> None:
        self.seconds.append(ended - began)


def timed(run: str) -> tuple[StepTimes, list[float], list[float], float]:
    """What is read of a run; its steps on the GPU's clock and the host's, and of a block of them.

    Work that was queued before the first step is in none of them.
    """
    clock, steps = RecordedClock(run), Steps()
    recorder: Any = steps
    times, marks = StepTimes(clock, recorder), clock.marks_of_steps
    times.begin(marks[0])
    for began, ended in itertools.pairwise(marks):
        times.step("real", 0, began, ended, 0.0)
    block = times.block(marks[-1], len(marks) - 1)
    assert block is not None
    host = [after.host - before.host for before, after in itertools.pairwise(marks)]
    return times, steps.seconds, host, block[0] / block[1]


def test_steps_that_only_fill_the_queue_are_as_long_as_the_gpu_takes():
    times, steps, host, block = timed(FILLS)
    assert host[:2] == pytest.approx([0.035, 0.072], rel=CLOSE)
    assert steps[1:] == pytest.approx([0.096] * 4, rel=CLOSE)
    assert block == pytest.approx(0.096, rel=CLOSE)
    kernels = by_step(FILLS).busy_s
    assert 0.9 * kernels < times.queue.busy_s() < kernels


def test_a_host_that_waits_in_some_steps_has_even_steps_on_the_gpu():
    times, steps, host, block = timed(BUSY)
    assert max(host) > 2 * min(host)
    assert steps == pytest.approx([block] * 6, rel=0.05)
    assert times.queue.busy_s() < by_step(BUSY).busy_s


# Time on real GPUs by the user's lines, from recorded runs: kernels, and their backward.


WORKERS_0, WORKERS_4 = "v100_resnet50_workers0", "v100_resnet50_workers4"
FILLS = "v100_resnet_queue_fills"
COPY, FORWARD, LOSS, ZERO_GRAD, UPDATE = "44", "46", "47", "49", "51"
"""Lines of the script of the first two: `.to(device)`, `model(…)`, `criterion(…)` and so on."""

Times = dict[Any, tuple[float, float]]


def on_device(events: list[Seen], marks: set[str]) -> Times:
    """Milliseconds of forward and backward on the device by marks, and None for the rest."""
    known: Any = {name: name for name in marks}
    reader = Reader(known)
    reader.read(seen for seen in events if seen.kind == "cpu_op" or seen.label in marks)
    work = [seen for seen in events if seen.kind in ON_DEVICE]
    times = reader.device(work, lambda at: True)
    return {mark: (forward / 1e6, backward / 1e6) for mark, (forward, backward) in times.items()}


def by_line(run: str, without: str = "") -> Times:
    """The same by the lines in the stacks of operators, each of them marked.

    What an operator `without` started is as if its mark had: a kernel of Triton's.
    """
    marked, links = [], {}
    for seen in recorded(run):
        if line := re.search(r"\.py\((\d+)\)", seen.stack):
            mark = Seen(line[1], seen.at, seen.long, "mark", -seen.number, thread=seen.thread)
            marked.append(mark)
            links |= {seen.number: mark.number} if seen.label == without else {}
    events = [replace(seen, by=links.get(seen.by, seen.by)) for seen in recorded(run)]
    return on_device([*marked, *events], {seen.label for seen in marked})


def busy(run: str, thread: int | None = None) -> float:
    """Milliseconds of all that ran, or that one thread started; these runs have one stream."""
    calls = {seen.number: seen.thread for seen in recorded(run) if seen.kind == "cuda_runtime"}
    work = [seen for seen in recorded(run) if seen.kind in ON_DEVICE[:3]]
    return sum(seen.long for seen in work if thread in (None, calls[seen.number])) / 1000


@pytest.mark.parametrize(
    ("run", "device", "copies"), [(WORKERS_0, 604, 11.5), (WORKERS_4, 614, 19)]
)
def test_each_line_has_the_kernels_that_it_launched_and_their_backward(run, device, copies):
    times = by_line(run)
    whole = sum(map(sum, times.values()))
    assert whole == pytest.approx(device, rel=0.001)
    forward, backward = times[FORWARD]
    assert times[COPY] == (pytest.approx(copies, rel=0.01), 0)
    assert backward == pytest.approx(1.87 * forward, rel=0.01)
    assert sum(times[LOSS]) < 0.001 * whole
    assert times[UPDATE][0] == pytest.approx(7.9, rel=0.01)
    assert times[ZERO_GRAD][0] == pytest.approx(1.0, rel=0.05)
    # No line is told of adding up gradients: that node of the backward graph has no number.
    assert sum(times[None]) == pytest.approx(18.8, rel=0.01)


def test_what_no_operator_started_is_of_the_line_all_the_same():
    assert by_line(WORKERS_0, without="aten::copy_") == by_line(WORKERS_0)


def test_workers_move_no_time_from_one_line_to_another():
    before, after = by_line(WORKERS_0), by_line(WORKERS_4)
    assert before[FORWARD] == pytest.approx(after[FORWARD], rel=0.02)


def test_kernels_that_run_steps_later_are_of_the_line_that_launched_them():
    events = list(recorded(FILLS))
    times = on_device(events, {"## forward ##", "## optimizer ##"})
    assert sum(map(sum, times.values())) == pytest.approx(busy(FILLS), rel=0.001)
    (of_backward,) = {seen.thread for seen in events if seen.forward_thread}
    forward, backward = times["## forward ##"]
    assert forward + backward > 0.95 * busy(FILLS)
    assert backward == pytest.approx(busy(FILLS, of_backward), rel=0.03)
