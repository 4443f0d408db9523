"""Start legs beside each other, and wait until each stands at its first slice.

On a device that they share one warms up at a time, as kernels are chosen by timing them then: the
others wait where they are about to use it, or stand at their first slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainperf.run.stopping import Guard
from trainperf.trial.budget import LATE
from trainperf.trial.legs.leg import Leg, LegFailed
from trainperf.trial.legs.room import memory_is_short

LOOK_EVERY_S = 0.01
MORE_S = 15.0
MORE_TIMES = 3.0
"""A leg may take so much longer than the slowest that has arrived, if it does not compile."""


def warm_up(
    legs: Sequence[Leg],
    guard: Guard,
    at_once: int,
    limit_s: float,
    asked: Callable[[], bool],
    done: Callable[[int], None] = lambda count: None,
) -> None:
    """Start `legs`, at most `at_once` at a time, and stop each where it has warmed up.

    Returns when all stand still, have failed (their `failure` says how), or `asked`
    came true: what has not arrived then has failed as well. A leg that needs longer
    than `limit_s` seconds, or much longer than the others, or the memory of which does
    not suffice, is ended. While one waits for its device, or compiles, no limit but `asked`
    holds, nor for one that is slow to start.
    """
    waiting, going = list(legs), list[Leg]()
    while waiting or going:
        while waiting and len(going) < at_once and not asked():
            leg = waiting.pop(0)
            leg.start(guard)
            going.append(leg)
        _give_device(going)
        slowest = max((leg.ready_s for leg in legs if leg.ready_s is not None), default=None)
        limit = limit_s if slowest is None else min(limit_s, MORE_S + MORE_TIMES * slowest)
        for leg in list(going):
            _look(leg, limit)
            if leg.failure or leg.ready_s is not None:
                going.remove(leg)
                done(len(legs) - len(waiting) - len(going))
        if going and memory_is_short():
            last = going.pop()
            last.short_of_memory = True
            _fail(last, "ended: the machine's memory was running out")
        if asked():
            for leg in (*going, *waiting):
                _fail(leg, LATE)
            return
        time.sleep(LOOK_EVERY_S)


def _give_device(going: Sequence[Leg]) -> None:
    """Let the first of those that wait for their device have it, once nobody warms up on it."""
    waiting = [leg for leg in going if leg.waits_for_device]
    if waiting and not any(leg.has_device for leg in going):
        waiting[0].give_device()


def _look(leg: Leg, limit_s: float) -> None:
    if leg.look():
        try:
            leg.arrived()
        except LegFailed:
            leg.end()
    elif leg.failure:
        leg.end()
    elif leg.spent_s > limit_s and not leg.slow:
        _fail(leg, f"made too few steps to begin with in {limit_s:.0f} s")


def _fail(leg: Leg, reason: str) -> None:
    leg.failure = reason
    leg.end()
