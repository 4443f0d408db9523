"""Late blocks against early ones, and memory over time."""

import pytest

from recordings import FIT, observed
from trainperf.evidence.over_time import over_time
from trainperf.model import HostSample, Missing, OverTime, Sample

MIB = 1024**2


def blocks(times, each_s=2.0, sizes=None):
    """Real blocks one behind the other, whose steps take these times."""
    sizes = sizes or [None] * len(times)
    return [
        {"e": "block", "p": "real", "b": index, "s": each_s * index, "d": each_s, "n": each_s / one,
         "bytes": size}
        for index, (one, size) in enumerate(zip(times, sizes, strict=True))
    ]  # fmt: skip


def samples(rss=lambda t: 1000 * MIB, waiting=lambda t: 0.0, until=60):
    """A sample each second; `waiting` threads are ready without a core, others have them."""
    return [
        Sample(float(t), HostSample(1.0, 2.0, int(rss(t)), 1, 2, others_cores=1.0,
                                    threads_running=1.0, threads_waiting=waiting(t)))
        for t in range(until)
    ]  # fmt: skip


def noisy(times, by=0.01):
    return [one * (1 + by * ((index * 7) % 5 - 2) / 2) for index, one in enumerate(times)]


def seen(times, *events, samples=(), **how) -> OverTime:
    found = over_time(observed(FIT, *blocks(times, **how), *events), samples)
    assert isinstance(found, OverTime)
    return found


HEALTHY = noisy([0.1] * 30)
RISING = noisy([0.1 * (1 + index / 60) for index in range(30)])
LOOK = {"e": "held", "n": 9, "counts": {}, "grown": []}


@pytest.mark.parametrize(
    "times",
    [
        HEALTHY,
        noisy([0.1] * 30, by=0.2),
        [0.1] * 12 + [0.4] * 6 + [0.1] * 12,  # a burst in the middle
        [0.1] * 10 + [0.3] * 10 + [0.12] * 10,  # and one of which something is left
        [0.1] * 28 + [0.5, 0.5],  # the last blocks alone
        noisy([0.1 * (1 + index / 1000) for index in range(30)]),  # a little
        RISING[::-1],  # quicker
    ],
)
def test_nothing_is_said_of_a_run_that_does_not_become_slower(times):
    assert not seen(times).slower


def test_a_trend_does_not_hide_itself_as_noise():
    found = seen([0.1 * (1 + index / 10) for index in range(30)])
    assert found.slower
    assert found.high - found.low < 0.01


def test_an_ordinary_run_has_to_be_slower_by_more_than_a_soak():
    times = [0.1 * (1 + index / 300) for index in range(30)]
    assert not seen(times).slower
    assert seen(times, LOOK).slower


def test_late_steps_that_take_longer_are_said_with_their_interval():
    found = seen(RISING)
    assert found.slower
    assert found.ratio == pytest.approx((1 + 24.5 / 60) / (1 + 4.5 / 60), rel=0.02)
    assert 1.05 < found.low < found.ratio < found.high


def test_larger_batches_are_the_reason_themselves():
    sizes = [1000 + 20 * index for index in range(30)]
    found = seen(RISING, sizes=sizes)
    assert not found.slower
    assert found.batch_ratio == pytest.approx(1490 / 1090, rel=0.01)


def test_batches_that_vary_or_stay_are_no_reason():
    varied = [1000 * (1 + index % 3) for index in range(30)]
    assert seen(RISING, sizes=varied).slower
    assert seen(RISING, sizes=[1000] * 30).slower
    assert seen(RISING, sizes=[1000] * 30).batch_ratio is None


def test_neighbours_that_came_later_are_the_reason_themselves():
    found = seen(RISING, samples=samples(waiting=lambda t: 1.0 if t > 30 else 0.0))
    assert found.disturbed
    assert not found.slower


def test_neighbours_that_were_there_from_the_start_are_not():
    assert seen(RISING, samples=samples(waiting=lambda t: 1.0)).slower


@pytest.mark.parametrize("times", [[0.1] * 14, [0.1]])
def test_too_few_blocks_tell_nothing(times):
    assert isinstance(over_time(observed(FIT, *blocks(times))), Missing)


def test_a_short_run_tells_nothing():
    assert isinstance(over_time(observed(FIT, *blocks(RISING, each_s=0.1))), Missing)


@pytest.mark.parametrize(
    "rss",
    [
        lambda t: 1000 * MIB,
        lambda t: (1000 + (t % 7) * 30) * MIB,  # up and down
        lambda t: min(1000 + 50 * t, 1900) * MIB,  # an allocator that fills in the first third
        lambda t: (1000 + t / 10) * MIB,  # a little
    ],
)
def test_memory_that_does_not_surely_grow_is_not_said(rss):
    assert seen(HEALTHY, LOOK, samples=samples(rss)).memory is None


def test_memory_that_each_step_adds_is_said_with_its_interval():
    found = seen(HEALTHY, LOOK, samples=samples(lambda t: (1000 + 10 * t + t % 3) * MIB)).memory
    assert found is not None
    assert found.low < found.per_step < found.high
    assert found.per_step == pytest.approx(1.0 * MIB, rel=0.05)
    assert found.gained == pytest.approx(400 * MIB, rel=0.05)


def test_an_ordinary_run_is_not_asked_for_memory():
    found = seen(HEALTHY, samples=samples(lambda t: (1000 + 10 * t) * MIB))
    assert (found.soak, found.memory) == (False, None)


def test_the_last_look_says_what_grew():
    grown = {
        "kind": "container",
        "name": "losses",
        "sizes": [[10, 10], [30, 30], [70, 70]],
        "item": "Tensor",
        "graph": True,
        "of": "",
        "where": {"file": "/t.py", "line": 3, "function": "main"},
    }
    found = seen(HEALTHY, LOOK, {**LOOK, "grown": [grown]})
    assert found.soak
    assert [(one.name, one.holds_graph, one.per_step) for one in found.grown] == [
        ("losses", True, 1.0)
    ]
    assert found.grown[0].where.line == 3
