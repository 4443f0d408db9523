"""Time on real GPUs by the user's lines, from recorded runs: kernels, and their backward."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kit.kineto import ON_DEVICE, Seen, recorded
from trainperf.child.torch.step.lines import Reader

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
