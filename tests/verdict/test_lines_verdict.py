"""What is said of a step by its lines: in verdicts, and in what the rules make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import zoo
from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import shown_findings
from trainperf.model import (
    Evidence,
    Finding,
    FunctionCost,
    Line,
    LineKind,
    LinePart,
    Site,
    StepLines,
)
from trainperf.verdict import ranked, verdict
from trainperf.verdict.grades import sound
from trainperf.verdict.steps import input_culprit
from trainperf.verdict.verdict import passes


def line(number: int, text: str, **more: Any) -> Line:
    """A line whose parts are named as its ways, in shares of a step of one second."""
    kinds: tuple[LineKind, ...] = ("operators", "backward", "graph", "python", "library")
    parts = tuple(LinePart(kind, more.pop(kind)) for kind in kinds if kind in more)
    seconds = sum(part.seconds for part in parts)
    return Line(Site("a.py", number, more.pop("function", "f")), text, seconds, parts, **more)


def with_lines(name: str, *lines: Line) -> Evidence:
    exact = replace(zoo.load(name).evidence.as_if_exact(), probes={})
    return replace(exact, lines_=StepLines(1.0, lines, 0.0, 200))


def found(id_: str, seen: Evidence) -> Finding | None:
    return next(iter(shown_findings(seen, among=[by_id()[id_]])), None)


COPY = line(3, "x = x.to(device)", operators=0.7)
MODEL = line(4, "y = model(x)", operators=0.2, in_model=True)


def test_on_a_gpu_what_it_runs_counts_and_not_where_the_host_waits_for_that() -> None:
    seen = with_lines("healthy", replace(COPY, device_s=0.05), replace(MODEL, device_s=0.9))
    assert passes(seen) == " 90 % of each step passes in `y = model(x)`, a.py:4."
    assert "beside the model" not in sound(seen).text
    assert "beside the model" in sound(with_lines("healthy", COPY, MODEL)).text
    loss = replace(COPY, text="loss = F.cross_entropy(y, labels)")
    assert "beside the model" not in sound(with_lines("healthy", loss, MODEL)).text


def test_a_long_line_is_cut_where_it_gets_too_long() -> None:
    text = "masked=d[:,None,:].expand_as(candidate).masked_fill(~candidate,float('inf'))"
    told = passes(with_lines("torch_healthy", line(3, text, operators=0.5)))
    assert f"`{text[:59]}…`, a.py:3" in told


def test_small_operators_of_a_compiled_graph_are_told_in_words_of_its_framework() -> None:
    rolled = line(37, "tf.roll(window[:, c])", graph=0.05, function="jitter")
    rolled = replace(rolled, operators=768.0)
    rest = line(40, "return tf.stack(channels)", python=0.01, function="jitter")
    seen = with_lines("healthy", rolled, rest)
    seen = replace(seen, lines_=replace(seen.lines, seconds=0.1))
    finding = found("own_function", seen)
    assert finding is not None
    assert "samples" not in finding.text
    assert "50 % in 768 calls of small operators" in finding.text
    assert "tf.where" in finding.snippet
    assert "torch" not in finding.snippet
    whole = "60 % of each step passes in `jitter`, a.py:37, which makes 768 calls of small"
    assert whole in verdict(seen, ranked((finding,), seen)).text


@pytest.mark.parametrize(
    ("text", "call", "does"),
    [
        ("i = np.random.choice(n)", "numpy._core._prod_dispatcher", "`i = np.random.choice(n)`"),
        ("i = np.argsort(n)", "numpy._core.fromnumeric.argsort", "`argsort`"),
    ],
)
def test_what_is_private_to_a_library_is_not_named(text: str, call: str, does: str) -> None:
    finding = found(
        "own_function", with_lines("torch_healthy", line(3, text, library=0.6, call=call))
    )
    assert finding is not None
    assert finding.title == f"`f` spends its time in {does}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("output, hidden = self.cell(x[:, t], hidden)", "cell"),
        ("out, (h, c) = self.cell(x[:, t], (h, c))", "cell"),
        ("self.state = self.cell(x[:, t], self.state)", "cell"),
        ("self.state = self.cell(x[:, t], self.other)", "small calls"),
        ("outputs.append(self.cell(x[:, t], state))", "small calls"),
    ],
)
def test_a_cell_is_told_by_any_of_what_its_line_gives_to_the_next_turn(
    text: str, kind: str
) -> None:
    finding = found("own_function", evidence_of("cell_by_hand", {"lines.lines[0].text": text}))
    assert finding is not None
    assert finding.own is not None
    assert finding.own.kind == kind


def test_a_block_of_a_deep_model_is_no_loop_over_small_operators() -> None:
    block = line(39, "return x + self.down(x)", operators=0.005, in_model=True)
    block = replace(block, operators=100.0, elements=4096)
    assert not block.makes_small_calls
    assert replace(block, in_model=False).makes_small_calls
    assert replace(block, loop_text="for t in range(100):").makes_small_calls


def test_a_step_of_an_environment_is_no_optimizers() -> None:
    assert line(3, "self.opt_a.step()", python=0.1).of_training
    assert line(3, "w = rule(w)", python=0.1, call="torch.optim.adam.adam").of_training
    assert not line(3, "state = self.env.step(action)", python=0.1).of_training


def test_the_line_that_calls_the_step_is_not_what_feeds_it() -> None:
    seen = zoo.load("loop_traced_lengths").evidence
    where = seen.loop.where
    assert where is not None
    main = FunctionCost("main", where.file, where.line, 0.6, "main", 4)
    makes = FunctionCost("batches", where.file, 5, 0.4, "main", 3)
    assert input_culprit(replace(seen, functions=(main, makes))).startswith("`batches`")


def test_a_function_that_makes_the_batches_of_a_loop_by_hand_is_told_with_its_line() -> None:
    seen = zoo.load("generator").evidence
    seen = replace(seen, loop=replace(seen.loop, kind="call"))
    assert seen.input_bound
    makes = line(21, "i = rng.choice(rows, size)", library=0.95, samples=190, function="sample")
    seen = replace(seen, lines_=StepLines(1.0, (makes,), 0.0, 200))
    finding = found("own_function", seen)
    assert finding is not None
    assert finding.bound is not None
    assert finding.bound <= seen.times.real / seen.times.resident
    assert verdict(seen, (finding,)).text.startswith("Input-bound: 95 % of each step passes in")
