"""Times of a loop on a device that runs later than the host, against the plain script."""

from __future__ import annotations

import pytest
from gpu_kit import PLAIN_S, Place, kept, nothing_about_input, on_both, on_two

HIDDEN = [(0.045, 0.050), (0.140, 0.150)]


def hidden(
    place: Place, item: float, step: float, legs_s: float = 25, many: int | None = None
) -> None:
    words = ("hidden.py", "--item", f"{item}", "--step", f"{step}")
    plain = place.plain(*words, steps=many)
    report = place.diagnosed(*words, options=("--budget", "25s", "--no-trials"))
    place.row("a step", plain, report["evidence"]["times"]["real"]["seconds"], 0.03)
    least = 0.97 - (0.03 if place.emulated else 0.0)
    assert report["verdict"]["utilization"] >= least, report["verdict"]
    nothing_about_input(report)
    gave = place.against_itself(*words, more=("--workers", "2"), step_s=step, limit_s=legs_s)
    place.row("workers that are not needed", 1.0, gave["changed"], 0.02)
    place.row("the script against itself", 1.0, gave["control"], 0.02)


@pytest.mark.timeout(300)
@on_both(seconds=PLAIN_S + 50)
def test_a_loader_of_45_ms_is_hidden_behind_50_ms(place: Place) -> None:
    hidden(place, *HIDDEN[0])


@pytest.mark.timeout(300)
@on_both(seconds=PLAIN_S + 60)
def test_a_loader_of_140_ms_is_hidden_behind_150_ms(place: Place) -> None:
    hidden(place, *HIDDEN[1], legs_s=35, many=30)


@pytest.mark.timeout(300)
@on_both(seconds=PLAIN_S + 25)
def test_an_item_of_3_ms_before_40_ms_of_the_device_makes_no_noise(place: Place) -> None:
    words = ("hidden.py", "--item", "0.003", "--step", "0.040")
    plain = place.plain(*words)
    report = place.diagnosed(*words, options=("--budget", "25s", "--no-trials"))
    times = report["evidence"]["times"]
    real = times["real"]
    place.row("a step", plain, real["seconds"], 0.03)
    place.row("real against resident", times["resident"]["seconds"], real["seconds"], 0.02)
    noise = (real["high"] - real["low"]) / (2 * real["seconds"])
    assert noise <= (0.06 if place.emulated else 0.03), times
    assert not [one for one in report["notes"] if "more than twice the usual time" in one]
    nothing_about_input(report)


@pytest.mark.timeout(400)
@on_both(seconds=2 * PLAIN_S + 62)
def test_items_of_60_ms_before_20_ms_are_made_by_workers(place: Place) -> None:
    words = ("hidden.py", "--item", "0.060", "--step", "0.020")
    before = place.plain(*words)
    options = ("--budget", "60s", "--only", "torch_workers")
    place.probe_little()
    report = place.diagnosed(*words, options=options)
    place.row("a step", before, report["evidence"]["times"]["real"]["seconds"], 0.03)
    kept(report, "torch_workers")
    assert report["verdict"]["bottleneck"] == "input"
    place.fixed(report)
    after = place.plain(*words)
    place.row("the repair", before / after, report["stack"]["speedup"], 0.05)


@pytest.mark.timeout(300)
@on_both(seconds=95)
def test_a_script_is_as_fast_as_itself_at_1_20_and_300_ms(place: Place) -> None:
    for step_s, limit_s in ((0.001, 25), (0.020, 25), (0.300, 45)):
        words = ("hidden.py", "--item", "0", "--step", f"{step_s}")
        gave = place.against_itself(*words, step_s=step_s, limit_s=limit_s)
        for name, found in gave.items():
            place.row(f"{name} at {step_s * 1e3:g} ms", 1.0, found, 0.02)


@pytest.mark.timeout(300)
@on_two(seconds=PLAIN_S + 25)
def test_a_loop_on_the_second_device_is_timed_there(place: Place) -> None:
    words = ("hidden.py", "--item", "0.045", "--step", "0.050", "--device", "1")
    report = place.diagnosed(*words, options=("--budget", "25s", "--no-trials"))
    place.row("a step", place.plain(*words), report["evidence"]["times"]["real"]["seconds"], 0.03)
    nothing_about_input(report)
