"""A comparison in a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from reporters.samples import SAMPLES
from reporters.samples_observed import CACHE, INPUT_BOUND, TWO_GPUS
from trainperf.compare import compare
from trainperf.model import Diagnosis
from trainperf.reporters.terminal.comparison import render


def text(a: Diagnosis, b: Diagnosis, width: int = 100) -> str:
    file = io.StringIO()
    render(compare(a, b), Console(file=file, width=width, color_system=None))
    return file.getvalue()


def last(a: Diagnosis, b: Diagnosis) -> str:
    return text(a, b).strip().split("\n")[-1]


def at(real_s: float, batch: int = 32) -> Diagnosis:
    assert INPUT_BOUND.loop is not None
    return replace(
        INPUT_BOUND,
        times=replace(INPUT_BOUND.times, real_s=real_s, samples_per_s=batch / real_s),
        loop=replace(INPUT_BOUND.loop, batch_size=batch),
    )


def test_that_nothing_changed_is_said_plainly() -> None:
    assert last(INPUT_BOUND, INPUT_BOUND) == "Nothing changed beyond the noise."


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (at(0.1), at(0.2), "It trains slower: 0.50× as fast as before."),
        (at(0.2), at(0.1), "It trains 2.00× as fast as before."),
        (at(0.1, 32), at(0.2, 64), "It trains as fast as before, as far as the noise lets tell."),
        (at(0.1, 32), at(0.1, 64), "It trains 2.00× as fast as before."),
        (
            INPUT_BOUND,
            replace(INPUT_BOUND, findings=()),
            "It trains as fast as before, as far as the noise lets tell.",
        ),
        (
            INPUT_BOUND,
            TWO_GPUS,
            "The times are of other circumstances, so they say nothing about the script.",
        ),
    ],
)
def test_the_last_line_says_how_the_speed_changed(
    before: Diagnosis, after: Diagnosis, says: str
) -> None:
    assert last(before, after) == says


def test_more_is_better_where_it_is() -> None:
    slower = text(at(0.1), at(0.2)).split("\n")
    (step,) = (line for line in slower if line.strip().startswith("real step"))
    (rate,) = (line for line in slower if line.strip().startswith("samples per"))
    assert step.endswith("+100.0 %  slower")
    assert rate.endswith("-50.0 %  worse")


def test_another_batch_size_is_said_in_a_sentence() -> None:
    report = text(at(0.1, 32), at(0.2, 64))
    assert "The batch size went from 32 to 64: compare samples per second" in report


def test_new_and_gone_findings_are_listed_and_those_still_there_are_not() -> None:
    new = replace(CACHE, id="tf_interleave_parallel", bound=None)
    report = text(INPUT_BOUND, replace(INPUT_BOUND, findings=(new, CACHE), practices=()))
    assert "new" in report
    assert "tf_interleave_parallel" in report
    assert "gone" in report
    assert "tf_cache" not in report


@pytest.mark.parametrize("width", [40, 80, 200])
def test_any_two_fit_any_terminal(width: int) -> None:
    for one in SAMPLES.values():
        report = text(INPUT_BOUND, one, width)
        if width >= 80:
            assert max(cell_len(line) for line in report.split("\n")) <= width
        assert "\x1b" not in report


def test_neighbours_are_named_below_what_changed() -> None:
    uses = tuple(
        replace(one, cpu_cores=1.0, machine_cpu_cores=2.4) for one in INPUT_BOUND.utilization
    )
    crowded = replace(at(0.3), utilization=uses)
    said = " ".join(text(at(0.1), crowded).split())
    assert said.endswith(
        "Other programs kept 1.4 cores busy beside the second run, which may be all that changed."
    )
    assert "Other programs" not in text(crowded, crowded)
