"""Late blocks against early ones."""

import pytest

from recordings import FIT, observed
from trainperf.evidence import over_time
from trainperf.model import HostSample, OverTime, Sample


def blocks(times, each_s=2.0, sizes=None):
    """Real blocks one behind the other, whose steps take these times."""
    sizes = sizes or [None] * len(times)
    return [
        {"e": "block", "p": "real", "b": index, "s": each_s * index, "d": each_s, "n": each_s / one,
         "bytes": size}
        for index, (one, size) in enumerate(zip(times, sizes, strict=True))
    ]  # fmt: skip


def samples(waiting):
    """A sample each second; `waiting` threads are ready without a core, others have them."""
    return [
        Sample(float(t), HostSample(1.0, 2.0, 1000, 1, 2, others_cores=1.0,
                                    threads_running=1.0, threads_waiting=waiting(t)))
        for t in range(60)
    ]  # fmt: skip


def noisy(times, by=0.01):
    return [one * (1 + by * ((index * 7) % 5 - 2) / 2) for index, one in enumerate(times)]


def seen(times, samples=(), **how) -> OverTime:
    found = over_time(observed(FIT, *blocks(times, **how)), samples)
    assert isinstance(found, OverTime)
    return found


HEALTHY = noisy([0.1] * 30)
RISING = noisy([0.1 * (1 + index / 60) for index in range(30)])


@pytest.mark.parametrize(
    "times",
    [
        HEALTHY,
        noisy([0.1] * 30, by=0.2),
        [0.1] * 12 + [0.4] * 6 + [0.1] * 12,  # a burst in the middle
        [0.1] * 10 + [0.3] * 10 + [0.12] * 10,  # and one of which something is left
        [0.1] * 28 + [0.5, 0.5],  # the last blocks alone
        noisy([0.1 * (1 + index / 300) for index in range(30)]),  # a little
        RISING[::-1],  # quicker
    ],
)
def test_nothing_is_said_of_a_run_that_does_not_become_slower(times):
    assert over_time(observed(FIT, *blocks(times))) is None


def test_a_trend_does_not_hide_itself_as_noise():
    found = seen([0.1 * (1 + index / 10) for index in range(30)])
    assert found.high - found.low < 0.01


def test_late_steps_that_take_longer_are_said_with_their_interval():
    found = seen(RISING)
    assert found.ratio == pytest.approx((1 + 24.5 / 60) / (1 + 4.5 / 60), rel=0.02)
    assert 1.10 < found.low < found.ratio < found.high


def test_larger_batches_are_the_reason_themselves():
    sizes = [1000 + 20 * index for index in range(30)]
    assert over_time(observed(FIT, *blocks(RISING, sizes=sizes))) is None
    varied = [1000 * (1 + index % 3) for index in range(30)]
    assert seen(RISING, sizes=varied)
    assert seen(RISING, sizes=[1000] * 30)


def test_neighbours_that_came_later_are_the_reason_themselves():
    later = samples(waiting=lambda t: 1.0 if t > 30 else 0.0)
    assert over_time(observed(FIT, *blocks(RISING)), later) is None
    assert seen(RISING, samples=samples(waiting=lambda t: 1.0))  # there from the start


def test_a_short_run_tells_nothing():
    assert over_time(observed(FIT, *blocks(RISING, each_s=0.1))) is None
