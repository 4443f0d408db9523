"""Time a step against a variation of it, in alternating blocks inside the process.

Identical code against itself reads 0.996–1.005 this way, where whole runs repeated
one after the other spread by 14 %. Probes run when all else has been recorded: they
go on training the model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..device.clock import seconds_of
from ..estimating import FEWEST, estimate

if TYPE_CHECKING:
    from ..driven_loop import DrivenLoop

BLOCKS = 6
PROBE_S = 1.2
CALLS = 2 * FEWEST + 4
"""A probe calls its two sides at least about so many times."""
MOST_BLOCKS = 30
NOISY = 4
"""A probe whose ratio is not decided takes at most so many times as long as usual."""
GAIN = 1.03
"""A ratio that is surely above it is a gain, one that is surely below it is none."""


def alternate(
    driver: DrivenLoop,
    name: str,
    deadline: float,
    base: Callable[[], Any],
    candidate: Callable[[], Any],
    per_candidate: int = 1,
    **detail: Any,
) -> None:
    """Time `base` and `candidate` in turn; record seconds per step of every block.

    `per_candidate` is how many steps one call of the candidate does. The first call
    of the candidate is timed apart: it traces and compiles. Turns go on until their ratio
    is decided, or the probe's time is up.
    """
    began = time.monotonic()
    candidate()
    driver.sync()
    one_off = time.monotonic() - began
    base()
    candidate()
    driver.sync()
    began = time.monotonic()
    base()
    driver.sync()
    once = max(1e-6, time.monotonic() - began)
    began = time.monotonic()
    spare = max(0.2, min(PROBE_S, deadline - began))
    count = max(1, int(spare / (2 * BLOCKS) / once))
    ends = began + NOISY * max(PROBE_S, 2 * BLOCKS * once)
    blocks: dict[str, list[float]] = {"base": [], "candidate": []}
    for index in range(MOST_BLOCKS):
        order = (("base", base, 1), ("candidate", candidate, per_candidate))
        for label, call, steps in order if index % 2 == 0 else reversed(order):
            calls = max(1, count // steps)
            blocks[label].append(seconds_of(driver.device, calls, call) / steps)
        now, turns = time.monotonic(), index + 1
        if turns > 1 and now > ends:
            break
        if turns >= FEWEST and (now > deadline or (turns >= BLOCKS and _decided(**blocks))):
            break
    driver.record.write("probe", name=name, one_off=one_off, detail=detail, **blocks)
    driver.record.flush()


def _decided(base: list[float], candidate: list[float]) -> bool:
    """Whether the ratio of the two is known well enough: a gain, none, or close to its value."""
    logs = [math.log(one / other) for one, other in zip(base, candidate, strict=True)]
    ratio = estimate(logs)
    half = math.inf if ratio.half is None else ratio.half
    line = math.log(GAIN)
    return ratio.value - half > line or ratio.value + half < line or half <= line
