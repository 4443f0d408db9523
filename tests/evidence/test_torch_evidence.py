"""What only PyTorch's processes record: the parts of a step, and what was compiled again."""

from __future__ import annotations

from typing import Any

import zoo
from recordings import FIT, observed, recording, steps
from trainperf.evidence.events import choose
from trainperf.evidence.torch import compiling, torch
from trainperf.model import Measure, Missing, Torch
from trainperf.model.torch import Compiling

IMPORT = {"e": "import", "name": "torch", "version": "2.13.0"}
LOOP = {**FIT, "kind": "iterator", "framework": "torch"}


SPLIT = {"e": "torch_split", "steps": 1}


def split_of(seconds: float, real: float, calls: float = 1.0, gpu: bool = False) -> Torch:
    event = {**SPLIT, "parts": {"forward": [seconds, calls]}}
    found = torch(observed(IMPORT, LOOP, event), Measure(real, 30, (real,)), gpu)
    assert found is not None
    return found


def test_parts_that_do_not_add_up_to_the_step_are_left_out_with_the_reason():
    slow = split_of(5.12, 1.68).split_
    assert isinstance(slow, Missing)
    assert "took 5.12 s each, where a step takes 1.68 s" in slow.reason
    assert isinstance(split_of(0.5, 1.68).split_, Missing)
    assert not isinstance(split_of(1.9, 1.68).split_, Missing)


def test_the_parts_on_a_gpu_may_overlap_in_a_real_step():
    assert not isinstance(split_of(0.016, 0.010, gpu=True).split_, Missing)


PLACE = {"file": "/home/me/net.py", "line": 12, "function": "forward"}
UPDATE = {"e": "first_update", "t": 50.0}


def compiled(at: float, reason: str = "size mismatch", **more: Any) -> dict[str, Any]:
    event = {"e": "torch_compilation", "t": at + 0.02, "s": at, "d": 0.02, "reason": reason}
    return event | {"where": PLACE, "function": "forward", "limit": False} | more


def read(*events: dict[str, Any]) -> Compiling:
    return compiling(observed(LOOP, *events))


WARM_UP = steps("warmup", [0.1] * 4)
REAL = steps("real", [0.1] * 10, block=1)


def test_what_was_compiled_while_trainperf_replayed_a_batch_does_not_count():
    made = steps("resident", [0.1] * 4)
    assert read(UPDATE, compiled(100.1), *made).recompiling is None


def test_what_goes_on_in_timed_steps_is_told_apart_from_what_came_before():
    found = read(
        UPDATE, compiled(100.05), compiled(100.15), compiled(1100.05), *WARM_UP, *REAL
    ).recompiling
    assert found is not None
    assert (found.function, found.count, found.steps) == ("forward", 3, 14)
    assert round(found.seconds, 6) == 0.06
    assert round(found.once_s, 6) == 0.04
    assert round(found.lasting_s, 6) == 0.002
    assert found.where is not None
    assert found.where.line == 12


def test_a_line_has_its_first_reason_and_skips_where_any_attempt_did():
    first = {"e": "torch_graph_break", "where": PLACE, "reason": "Tensor.item()", "skips": False}
    then = {**first, "reason": "graph break in loop", "skips": True}
    [found] = read(first, then).breaks
    assert (found.reason, found.skips) == ("Tensor.item()", True)


def test_an_evaluation_that_was_seen_before_the_loop_was_is_one_of_it():
    [(pid, events)] = zoo.load("left_debugging").recording.events.items()
    seen = [event for event in events if event["e"] == "torch_evaluation"]
    events = (*seen, *(event for event in events if event["e"] != "torch_evaluation"))
    found = torch(choose(recording(events={pid: events})))
    assert found is not None
    assert found.evaluation is not None
    assert found.evaluation.grad
