"""Time a step against a variation of it, in alternating blocks inside the process.

Identical code against itself reads 0.996–1.005 this way, where whole runs repeated
one after the other spread by 14 %. Probes run when all else has been recorded: they
go on training the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .driver import Driver

BLOCKS = 6
PROBE_S = 1.2


def alternate(
    driver: Driver,
    name: str,
    deadline: float,
    base: Callable[[], Any],
    candidate: Callable[[], Any],
    per_candidate: int = 1,
    **detail: Any,
) -> None:
    """Time `base` and `candidate` in turn; record seconds per step of every block.

    `per_candidate` is how many steps one call of the candidate does. The first call
    of the candidate is timed apart: it traces and compiles.
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
    spare = max(0.2, min(PROBE_S, deadline - time.monotonic()))
    count = max(1, int(spare / (2 * BLOCKS) / once))
    blocks: dict[str, list[float]] = {"base": [], "candidate": []}
    for index in range(BLOCKS):
        order = (("base", base, 1), ("candidate", candidate, per_candidate))
        for label, call, steps in order if index % 2 == 0 else reversed(order):
            calls = max(1, count // steps)
            began = time.monotonic()
            for _ in range(calls):
                call()
            driver.sync()
            blocks[label].append((time.monotonic() - began) / (calls * steps))
        if time.monotonic() > deadline + PROBE_S and index >= 3:
            break
    driver.record.write("probe", name=name, one_off=one_off, detail=detail, **blocks)
    driver.record.flush()
