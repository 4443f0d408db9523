"""Some things become more from look to look."""

import pytest

from fakes import FakeProcess
from trainperf.child.timing.soak.looks import Looks, steadily


@pytest.mark.parametrize(
    "sizes",
    [
        [10, 20],  # too few looks
        [10, 10, 10, 10],
        [10, 20, 20],  # a cache that is full
        [10, 100, 110],  # one that is nearly so
        [10, 30, 5],  # begun anew with an epoch
        [30, 10, 20],
    ],
)
def test_what_stays_or_levels_off_does_not_grow(sizes):
    assert not steadily([(100 * index, size) for index, size in enumerate(sizes)])


@pytest.mark.parametrize("sizes", [[10, 20, 30], [10, 20, 40, 60], [0, 5, 12]])
def test_what_is_more_at_each_look_grows(sizes):
    assert steadily([(100 * index, size) for index, size in enumerate(sizes)])


def test_once_in_thousands_of_steps_is_no_growth():
    assert not steadily([(0, 1), (10_000, 2), (20_000, 3)])


def test_a_list_of_the_loop_is_named_with_its_line():
    process = FakeProcess()
    looks = Looks(process, lambda: {"variables": 7})
    grown, constant = [], [1, 2, 3]
    for step in range(100):
        grown.append(step)
        process.clock.tick(1.0)
        looks(step)
    last = process.record.of("held")[-1]["grown"]
    told = [one for one in last if one["kind"] == "container" and not one["of"]]  # no fake's
    assert [one["name"] for one in told] == ["grown"]
    assert told[0]["where"]["function"] == "test_a_list_of_the_loop_is_named_with_its_line"
    assert told[0]["sizes"][-1][1] == len(grown) - (99 - told[0]["sizes"][-1][0])
    assert len(constant) == 3


def test_looks_come_after_twice_the_time_each():
    process = FakeProcess()
    looks = Looks(process, dict)
    for step in range(100):
        looks(step)
        process.clock.tick(1.0)
    assert [one["n"] for one in process.record.of("held")] == [0, 2, 6, 14, 30, 62]


def test_what_the_framework_counts_is_looked_at_as_well():
    process = FakeProcess()
    made = [0]
    looks = Looks(process, lambda: {"variables": made[0], "operations": 9})
    for step in range(50):
        made[0] += 2
        looks(step)
        process.clock.tick(1.0)
    told = [one for one in process.record.of("held")[-1]["grown"] if one["kind"] == "framework"]
    assert [one["name"] for one in told] == ["variables"]


def test_a_fault_of_ours_ends_no_training():
    process = FakeProcess(lenient=True)

    def counts():
        raise RuntimeError("gone")

    Looks(process, counts)(1)
    assert process.failures
