"""A step by lines of the user's own, from what real runs have recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import zoo
from trainperf.model import Line, LinePart, Missing, Site, StepLines


@cache
def lines_of(name: str) -> StepLines | Missing:
    return zoo.load(name).evidence.lines_


SEEN = [name for name in zoo.SCRIPTS if isinstance(lines_of(name), StepLines)]


@pytest.mark.parametrize("name", SEEN)
def test_a_step_is_on_lines_as_a_whole(name: str) -> None:
    lines = lines_of(name)
    assert isinstance(lines, StepLines)
    on_lines = sum(line.seconds for line in lines.lines)
    assert on_lines + lines.elsewhere_s == pytest.approx(lines.seconds, rel=0.05)
    assert lines.elsewhere_s < 0.1 * lines.seconds
    for line in lines.lines:
        assert sum(part.seconds for part in line.parts) == pytest.approx(line.seconds)
        assert line.text


def test_what_opens_an_input_for_each_batch_is_input_on_its_line() -> None:
    lines = lines_of("torch_loop_next_iter")
    assert isinstance(lines, StepLines)
    line = lines.lines[0]
    assert (line.kind, line.text) == ("input", "inputs, targets = next(iter(loader))")


def test_python_in_a_compiled_step_is_on_its_own_lines_and_the_layers_on_theirs() -> None:
    lines = lines_of("loop_python_metric")
    assert isinstance(lines, StepLines)
    metric = [line for line in lines.lines if line.where.function == "inversions"]
    assert lines.lines[0] in metric
    assert sum(line.of("python") for line in metric) > 0.4 * lines.seconds
    layers = [line for line in lines.lines if "keras.layers.Dense" in line.text]
    assert len(layers) == 3
    assert all(line.kind == "graph" and line.operators for line in layers)


def test_a_new_trace_is_compiling_with_its_first_run_and_no_input() -> None:
    lines, evidence = lines_of("loop_traced_lengths"), zoo.load("loop_traced_lengths").evidence
    assert isinstance(lines, StepLines)
    assert lines.lines[0].of("compiling") > 0.8 * lines.seconds
    traced = evidence.retracing
    assert traced is not None
    assert traced.seconds > 1.2 * sum(event["d"] for event in traces("loop_traced_lengths"))
    assert evidence.tracing_s > 0.8 * (evidence.times.real - evidence.times.resident)
    assert evidence.utilization < 0.1
    assert not evidence.input_bound


def traces(name: str) -> list[dict[str, Any]]:
    """The traces after the first update of weights, in steps that count."""
    events = next(iter(zoo.load(name).recording.events.values()))
    first = next(event["t"] for event in events if event["e"] == "first_update")
    steps = [e for e in events if e["e"] == "step" and e["p"] in ("warmup", "real", "traced")]
    return [
        event
        for event in events
        if event["e"] == "trace"
        and event["t"] > first
        and any(step["s"] <= event["s"] < step["t"] for step in steps)
    ]


def test_what_a_gpu_runs_is_of_the_line_that_launched_it_beside_the_hosts_own_seconds() -> None:
    recorded = zoo.load("ranking_loop")
    on_cpu = lines_of("ranking_loop")
    assert isinstance(on_cpu, StepLines)
    assert all(line.device_s is None for line in on_cpu.lines)
    events = next(iter(recorded.recording.events.values()))
    (traced,) = [event for event in events if event["e"] == "torch_lines"]
    product = next(line for line in traced["lines"] if "torch.mm" in line["text"])
    traced["all_device_s"], product["device_s"] = 0.008, 0.007
    found = recorded.evidence.lines_
    assert isinstance(found, StepLines)
    heaviest = max(found.lines, key=lambda line: line.weight)
    assert heaviest.text == product["text"]
    assert heaviest.device_s == pytest.approx(0.007 + product["backward_s"])
    assert [line.seconds for line in found.lines] == [line.seconds for line in on_cpu.lines]


def test_without_samples_no_line_is_known() -> None:
    assert isinstance(lines_of("loop_debugged"), Missing)


def line(number: int, function: str, **kinds: float) -> Line:
    parts = tuple(LinePart(kind, seconds) for kind, seconds in kinds.items())  # type: ignore[arg-type]
    return Line(Site("a.py", number, function), "x", sum(kinds.values()), parts, 10)


def test_of_the_function_that_holds_the_loop_each_line_stands_for_itself() -> None:
    found = StepLines(
        1.0,
        (
            line(3, "Loss.forward", python=0.2, backward=0.1),
            line(9, "train", library=0.25),
            line(10, "train", python=0.05, input=0.4),
            line(4, "Loss.forward", library=0.1),
        ),
        0.0,
        100,
    )
    functions = found.functions(Site("a.py", 8, "train"))
    assert [[one.where.line for one in each.lines] for each in functions] == [[3, 4], [9], [10]]
    assert [each.own_s for each in functions] == pytest.approx([0.3, 0.25, 0.05])


def test_small_operators_count_with_their_backward_large_ones_do_not() -> None:
    many = replace(line(3, "f", operators=0.3, backward=0.3), operators=8_000.0, elements=64)
    large = replace(many, elements=1 << 20)
    owned = [StepLines(1.0, (each,), 0.4, 100).functions(None)[0].own_s for each in (many, large)]
    assert owned == pytest.approx([0.6, 0.0])
