"""A step by lines of the user's own, from what real runs have recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

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
    many = replace(line(3, "f", operators=0.3, backward=0.3), operators=400.0, elements=64)
    large = replace(many, elements=1 << 20)
    owned = [StepLines(1.0, (each,), 0.4, 100).functions(None)[0].own_s for each in (many, large)]
    assert owned == pytest.approx([0.6, 0.0])
