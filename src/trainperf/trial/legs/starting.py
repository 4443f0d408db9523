"""Legs that start, beside each other as far as they do not disturb each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainperf.run.stopping import Guard
from trainperf.trial.legs.faults import LegFailed, OutOfMemory
from trainperf.trial.legs.leg import Leg
from trainperf.trial.legs.room import memory_is_short

START_S = 1.0
"""So long legs start, or compile, before others may have their turn."""
LOOK_EVERY_S = 0.01


def together(legs: Sequence[Leg], at_once: int, spin: bool) -> list[Leg]:
    """The first legs that may start beside each other: one has a device they share.

    Nor does any start beside one that makes steps, where threads `spin` as they wait.
    """
    chosen: list[Leg] = []
    if spin and any(leg.warms for leg in legs):
        return [next(leg for leg in legs if leg.warms)]
    for leg in legs:
        shared = leg.has_device and any(other.has_device for other in chosen)
        if len(chosen) < at_once and not shared:
            chosen.append(leg)
    return chosen


def let_start(
    legs: Sequence[Leg],
    guard: Guard,
    limit_s: float,
    over: Callable[[], bool],
    spin: bool = False,
    alone: bool = False,
) -> None:
    """Let legs start, until one of them stands at its first slice or it is others' turn.

    Each may take `limit_s` seconds. Nobody is paused who chooses kernels by timing them. Where
    they are `alone` nobody else waits for a turn, or for memory.
    """
    for leg in legs:
        if leg.started_s:
            leg.go_on()
        else:
            leg.start(guard)
    until = time.monotonic() + START_S
    starting = list(legs)
    while starting and not over():
        turn = len(starting) < len(legs) or time.monotonic() > until
        turn = turn or (spin and len(starting) > 1 and any(leg.warms for leg in starting))
        if turn and not alone and all(leg.may_pause for leg in starting):
            break
        waiting = [leg for leg in starting if leg.waits_for_device]
        if waiting and not any(leg.starting and leg.has_device for leg in starting):
            waiting[0].give_device()  # kernels are chosen by timing them in the first steps
        for leg in starting:
            _look_at(leg, limit_s)
        if not alone and memory_is_short():
            starting[-1].give_up(OutOfMemory("ended: the machine's memory was running out"))
        time.sleep(LOOK_EVERY_S)
        starting = [leg for leg in starting if leg.starting]
    for leg in starting:
        leg.pause()


def _look_at(leg: Leg, limit_s: float) -> None:
    """See whether a leg that starts has arrived, has failed, or takes longer than it may.

    While it waits for its device, or compiles, no limit holds, nor for one that is slow to start.
    """
    if leg.starting and leg.look():
        try:
            leg.arrived()
        except LegFailed:
            leg.end()
    elif leg.failure:
        leg.end()
    elif leg.starting and leg.spent_s > limit_s and not leg.slow:
        leg.give_up(LegFailed(f"made too few steps to begin with in {limit_s:.0f} s"))
