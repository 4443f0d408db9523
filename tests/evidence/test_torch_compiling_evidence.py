"""Of what was compiled, that counts which fell into the script's own steps after the first."""

from __future__ import annotations

from typing import Any

from recordings import observed, steps
from trainperf.evidence.torch import compiling
from trainperf.model.torch import Compiling

LOOP = {"e": "loop", "kind": "iterator", "framework": "torch", "phases": ["real"]}
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
