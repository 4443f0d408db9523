"""The drawings of the page: bars that add up, scales that hold, curves that break at gaps."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from reporters.samples_observed import FAILED, INPUT_BOUND
from reporters.samples_pages import EVERYTHING, RUN
from reporters.samples_parallel import PARALLEL
from reporters.samples_tried import ALL_OUTCOMES, ONE_KEPT
from trainperf.model import Moment, Span, Timeline
from trainperf.reporters.html import step
from trainperf.reporters.html.changes import changes, together
from trainperf.reporters.html.drawing import Scale, interval, percent, scale
from trainperf.reporters.html.timeline import LANES, drawn


def of(place: str) -> float:
    return float(place.removesuffix("%"))


@pytest.mark.parametrize("diagnosis", [INPUT_BOUND, EVERYTHING, *PARALLEL.values()])
def test_the_parts_of_a_step_fill_its_bar(diagnosis: object) -> None:
    pieces = step.bar(diagnosis)  # type: ignore[arg-type]
    assert len(pieces) >= 2
    assert sum(of(one.width) for one in pieces) == pytest.approx(100, abs=0.1)
    assert [of(one.x) for one in pieces] == sorted(of(one.x) for one in pieces)


def test_a_step_that_was_not_timed_has_no_bar() -> None:
    assert step.bar(FAILED) == []
    assert step.times(FAILED) == []


def test_the_times_stand_on_one_scale() -> None:
    real, resident, data, host = step.times(INPUT_BOUND)
    assert of(real.width) / of(resident.width) == pytest.approx(0.138 / 0.0432, rel=0.01)
    assert len(real.dots) == 3
    assert "3 blocks: 137 ms to 139 ms" in real.blocks
    assert data.dots == ()
    assert host.seconds == "1.21 ms"


def test_a_place_outside_is_at_the_edge() -> None:
    assert [percent(one) for one in (-1.0, 0.5, 7.0, float("nan"))] == ["0%", "50%", "100%", "0%"]


def test_a_scale_holds_what_it_is_made_for_and_one() -> None:
    made = scale([0.5, None, 3.0])
    assert 0 < made.at(0.5) < made.at(1.0) < made.at(3.0) < 1
    assert [tick for tick in made.ticks() if tick.one]


def test_a_scale_of_nothing_still_has_one_on_it() -> None:
    assert 0 < scale([]).at(1.0) < 1


def test_twice_as_fast_and_half_as_fast_are_as_far_from_one() -> None:
    even = Scale(0.25, 4.0)
    assert even.at(2.0) - even.at(1.0) == pytest.approx(even.at(1.0) - even.at(0.5))


def test_ticks_do_not_stand_on_each_other() -> None:
    places = [of(tick.x) for tick in scale([0.01, 1e4]).ticks()]
    assert len(places) > 3
    assert all(after - before >= 8.9 for before, after in itertools.pairwise(places))


def test_an_interval_has_its_point_inside() -> None:
    drawing = interval(scale([3.0]), 2.0, 1.8, 2.3, bound=3.0, floor=0.02, kept=True)
    assert drawing is not None
    assert of(drawing.low) < of(drawing.point) < of(drawing.high) < of(drawing.bound)
    assert of(drawing.noise_from) < of(drawing.one)
    assert drawing.words == (
        "measured 2.0× (1.8 to 2.3); at most 3.0×; gains below 2.0 % could be noise"
    )


def test_nothing_known_is_not_drawn() -> None:
    assert interval(scale([]), None, None, None, bound=None, floor=0.1) is None


def test_noise_that_is_not_known_is_not_drawn() -> None:
    drawing = interval(scale([]), 1.1, 1.0, 1.2, bound=None, floor=None)
    assert drawing is not None
    assert drawing.noise_from == ""
    assert drawing.bound == ""


def test_all_fixes_are_drawn_on_one_scale() -> None:
    shown = changes(ALL_OUTCOMES)
    plots = [one.plot for one in (*shown.advice, *shown.rejected) if one.plot is not None]
    assert len(plots) > 4
    assert len({plot.one for plot in plots}) == 1


def test_one_kept_change_has_no_bars_of_parts() -> None:
    found = together(ONE_KEPT)
    assert found is not None
    assert found.bars == []
    assert [one.name for one in found.versus] == ["A step", "Rate"]


def test_a_curve_breaks_where_nothing_was_measured() -> None:
    drawing = drawn(RUN)
    assert drawing is not None
    cpu, _, second = drawing.lanes
    assert cpu.area.count("M") == 2
    assert second.area.count("M") == 6
    assert cpu.line.count("M") == 1


def test_a_phase_too_short_to_see_is_left_out() -> None:
    drawing = drawn(RUN)
    assert drawing is not None
    assert "done" not in [phase.name for phase in drawing.phases]
    assert [phase.seconds for phase in drawing.phases][:2] == ["6.30 s", "1.10 s"]


def test_a_phase_that_comes_again_keeps_its_number() -> None:
    drawing = drawn(RUN)
    assert drawing is not None
    numbers = {(band.name, band.key) for band in drawing.bands}
    assert len(numbers) == len({name for name, _ in numbers}) < len(drawing.bands)


def test_a_gpu_that_was_never_read_has_no_lane() -> None:
    silent = Timeline(
        2.0,
        4.0,
        (Span("real", 0.0, 2.0),),
        tuple(Moment(t, 1.0, None, None, (None,)) for t in (0.0, 1.0, 2.0)),
    )
    drawing = drawn(silent)
    assert drawing is not None
    assert [lane.key for lane in drawing.lanes] == ["cpu"]
    assert drawing.lanes[0].line == ""


def test_of_many_gpus_some_are_drawn_and_the_rest_is_said() -> None:
    many = replace(
        RUN, moments=tuple(replace(one, gpu_percent=(50.0,) * 16) for one in RUN.moments)
    )
    drawing = drawn(many)
    assert drawing is not None
    assert len(drawing.lanes) == LANES + 1
    assert drawing.omitted == "8 of 16 GPUs are drawn."


def test_no_timeline_is_no_drawing() -> None:
    assert drawn(None) is None
