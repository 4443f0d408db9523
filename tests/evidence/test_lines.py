"""A step by lines of the user's own, from what real runs have recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import zoo
from recordings import FIT, observed
from trainperf.evidence.stacks import functions
from trainperf.model import Missing, StepLines


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
    assert evidence.tracing_s > 0.8 * (evidence.times.real - evidence.times.resident)
    assert evidence.utilization < 0.1
    assert not evidence.input_bound


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


def test_of_the_function_that_holds_the_loop_each_line_stands_for_itself() -> None:
    evidence = zoo.load("ranking_loop").evidence
    ranking, *others = evidence.lines.functions(evidence.loop.where)
    assert ranking.where.function == "ranking_loss"
    assert len(ranking.lines) > 1
    assert not ranking.alone
    of_main = [function for function in others if function.where.function == "main"]
    assert len(of_main) > 1
    assert all(function.alone and len(function.lines) == 1 for function in of_main)


def test_small_operators_count_with_their_backward_large_ones_do_not() -> None:
    evidence = zoo.load("ranking_loop").evidence
    dearest = evidence.lines.lines[0]
    large = replace(dearest, elements=1 << 20)
    assert dearest.of("backward")
    owned = [
        replace(evidence.lines, lines=(line,)).functions(None)[0].small_s
        for line in (dearest, large)
    ]
    assert owned == pytest.approx([dearest.of("operators", "backward"), 0.0])


def count(function, n, line=5, thread="main", into="", start=1):
    return {
        "thread": thread,
        "file": "train.py",
        "def": start,
        "function": function,
        "line": line,
        "into": into,
        "n": n,
    }


def stacks(*counts, total=100):
    return {"e": "stacks", "total": total, "counts": list(counts)}


def test_the_call_that_holds_the_loop_is_left_out():
    where = {"file": "train.py", "line": 20, "end_line": 22, "function": "main"}
    made = observed({**FIT, "where": where}, stacks(count("main", 90, 21), count("load", 9)))
    assert [cost.name for cost in functions(made)] == ["load"]


def test_workers_and_the_main_thread_are_told_apart():
    made = observed(FIT, stacks(count("load", 60, thread="worker"), count("load", 20)))
    assert [(cost.thread, cost.share) for cost in functions(made)] == [
        ("worker", 0.6),
        ("main", 0.2),
    ]
