"""Times on a device that runs later than the host are those of a running pipeline.

A script pulls an item (h seconds of the host), and queues a step (d seconds of the device) that
the host does not wait for, but for each k-th one. All of it runs on a clock that only the host's
work and its waits move, so that what is read can be held against the closed form.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from emulation.clock import MarkedClock, UnmarkedClock
from emulation.device import DEPTH, Device
from kit.child import Clock, MadeUp, Watcher
from trainperf.child.timing.device import seconds_of
from trainperf.evidence.events import Observed
from trainperf.evidence.timing import times

CLOSE = 0.02
"""So far may a time be from the closed form."""
OWN_S = 20e-6
"""Of the host's own time in a step, beside the item."""


class Items:
    """A loader whose items take a host's time, as long as an epoch of them lasts."""

    def __init__(self, clock, seconds, ready=0, epoch=0, opening_s=0.0):
        self._epoch, self._left, self._opening_s = epoch, epoch, opening_s
        self._clock, self._seconds, self._ready = clock, seconds, ready
        self._dataset = self
        self._made_at = clock.now

    def __iter__(self) -> Items:
        self._clock.tick(self._opening_s)
        self._left = self._epoch
        return self

    def __next__(self) -> int:
        if self._epoch:
            if not self._left:
                raise StopIteration
            self._left -= 1
        if not self._ready:
            self._clock.tick(self._seconds)
            return 1
        # A thread makes items ahead, until so many are ready.
        self._made_at = max(self._made_at, self._clock.now - self._ready * self._seconds)
        self._made_at += self._seconds
        if self._made_at > self._clock.now:
            self._clock.now = self._made_at
        return 1


def observe(
    item_s: float,
    device_s: float,
    every: int = 0,
    depth: int = DEPTH,
    launches: int = 1,
    clock_of: Any = MarkedClock,
    measure_s: float = 20.0,
    ready: int = 0,
    devices: int = 1,
    side_stream: bool = False,
    **epochs: Any,
) -> Any:
    """Train until trainperf has all times; what they are read as."""
    watcher = Watcher(measure_s)
    clock: Clock = watcher.clock
    cards = [Device(clock, clock.tick, depth) for _ in range(devices)]
    copies = [card.stream() for card in cards]
    loops = MadeUp(watcher, clock_of(*cards))
    items = Items(clock, item_s, ready, **epochs)
    for step in itertools.count(1):
        try:
            loops.next(items, Items.__next__)
        except StopIteration:
            break
        if watcher.finished:
            break
        assert step < 50_000
        clock.tick(OWN_S)
        for card, copy in zip(cards, copies, strict=True):
            if side_stream:  # the next batch is copied while this one is worked on
                card.launch(device_s / 2, copy)
                card.default.wait(copy.record())
            for _ in range(launches):
                card.launch(device_s / launches)
        loops.bare_update("one")
        if every and step % every == 0:
            for card in cards:
                card.synchronize()
    start = next(i for i, one in enumerate(watcher.record.events) if one["e"] == "loop")
    events = [_read(one) for one in watcher.record.events]
    return times(Observed(tuple(events), events[start], tuple(events[start + 1 :])))


def _read(event: dict[str, Any]) -> dict[str, Any]:
    if event["e"] == "step":
        return event | {"t": event["s"] + event["d"], "w": 0.0}
    return event


def closed_form(host_s: float, device_s: float, every: int = 0) -> float:
    """Seconds a step: the slower side hides the other, but where the script waits for both."""
    shown = min(host_s, device_s) / every if every else 0.0
    return max(host_s, device_s) + shown


SIDES = [
    (0.140, 0.150),
    (0.045, 0.050),
    (0.003, 0.040),
    (0.060, 0.020),
    (0.001, 0.0015),
    (0.9, 1.1),
]


@pytest.mark.parametrize("clock_of", [MarkedClock, UnmarkedClock])
@pytest.mark.parametrize(
    ("item_s", "device_s", "launches"),
    [*((*sides, launches) for sides in SIDES for launches in (1, 40)), (0.140, 0.150, 700)],
)
def test_a_step_takes_as_long_as_its_slower_side(item_s, device_s, launches, clock_of):
    found = observe(item_s, device_s, launches=launches, clock_of=clock_of)
    host_s = item_s + OWN_S
    assert found.real == pytest.approx(closed_form(host_s, device_s), rel=CLOSE)
    assert found.resident == pytest.approx(closed_form(OWN_S, device_s), rel=CLOSE)


@pytest.mark.parametrize("depth", [2, 16, DEPTH])
@pytest.mark.parametrize("measure_s", [1.0, 4.0, 30.0])
def test_the_depth_of_the_queue_and_the_length_of_blocks_do_not_matter(depth, measure_s):
    found = observe(0.140, 0.150, depth=depth, measure_s=measure_s)
    assert found.real == pytest.approx(0.150, rel=CLOSE)
    assert found.resident == pytest.approx(0.150, rel=CLOSE)


@pytest.mark.parametrize(
    ("item_s", "device_s", "every"),
    [
        *((*sides, every) for sides in SIDES[:4] for every in (1, 2, 3, 7, 10)),
        (0.045, 0.050, 50),
        (0.060, 0.020, 50),
    ],
)
def test_waits_of_the_scripts_own_count_as_often_as_they_come(every, item_s, device_s):
    found = observe(item_s, device_s, every=every)
    host_s = item_s + OWN_S
    assert found.real == pytest.approx(closed_form(host_s, device_s, every), rel=CLOSE)
    assert found.resident == pytest.approx(closed_form(OWN_S, device_s, every), rel=CLOSE)


@pytest.mark.parametrize(
    ("item_s", "how"),
    [(0.150, {"ready": 4, "every": 1}), (0.001, {"side_stream": True}), (0.001, {"devices": 3})],
    ids=["items made ahead", "a copy on a side stream", "several devices"],
)
def test_what_is_done_beside_a_step_hides(item_s, how):
    found = observe(item_s, 0.040, **how)
    assert found.real == pytest.approx(max(item_s, 0.040), rel=CLOSE)


@pytest.mark.parametrize("clock_of", [MarkedClock, UnmarkedClock])
@pytest.mark.parametrize(
    ("item_s", "device_s", "epoch", "opening_s"),
    [(0.001, 0.020, 100, 0.5), (0.015, 0.020, 60, 0.05), (0.020, 0.015, 60, 0.05)],
)
def test_opening_the_input_is_no_part_of_a_step(clock_of, item_s, device_s, epoch, opening_s):
    found = observe(item_s, device_s, clock_of=clock_of, epoch=epoch, opening_s=opening_s)
    assert found.real == pytest.approx(max(item_s, device_s), rel=2 * CLOSE)


# ------------------------------------------------------------------- calls in a row


@pytest.mark.parametrize("clock_of", [MarkedClock, UnmarkedClock])
@pytest.mark.parametrize(("host_s", "device_s"), [(0.001, 0.010), (0.010, 0.001), (0.009, 0.010)])
@pytest.mark.parametrize("calls", [1, 5])
def test_calls_in_a_row_take_as_long_as_their_slower_side(clock_of, host_s, device_s, calls):
    clock = Clock()
    card = Device(clock, clock.tick)

    def call() -> None:
        clock.tick(host_s)
        card.launch(device_s)

    found = seconds_of(clock_of(card), calls, call)
    assert found == pytest.approx(max(host_s, device_s), rel=CLOSE)
