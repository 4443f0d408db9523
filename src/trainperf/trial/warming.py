"""Start legs beside each other, and wait until each stands at its first slice."""

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
"""A leg may take so much longer than the slowest that has arrived: compiling takes time."""


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
    not suffice, is ended.
    """
    waiting, going = list(legs), list[Leg]()
    while waiting or going:
        while waiting and len(going) < at_once and not asked():
            leg = waiting.pop(0)
            leg.start(guard)
            going.append(leg)
        slowest = max((leg.ready_s for leg in legs if leg.ready_s is not None), default=None)
        limit = limit_s if slowest is None else min(limit_s, MORE_S + MORE_TIMES * slowest)
        for leg in list(going):
            _look(leg, limit)
            if leg.failure or leg.ready_s is not None:
                going.remove(leg)
                done(len(legs) - len(waiting) - len(going))
        if going and memory_is_short():
            _fail(going.pop(), "ended: the machine's memory was running out")
        if asked():
            for leg in (*going, *waiting):
                _fail(leg, LATE)
            return
        time.sleep(LOOK_EVERY_S)


def _look(leg: Leg, limit_s: float) -> None:
    if leg.look():
        try:
            leg.arrived()
        except LegFailed:
            leg.end()
    elif leg.failure:
        leg.end()
    elif time.monotonic() - leg.started_s > limit_s:
        _fail(leg, f"made too few steps to begin with in {limit_s:.0f} s")


def _fail(leg: Leg, reason: str) -> None:
    leg.failure = reason
    leg.end()
