"""Timing apart from the loop: a step against a variation of it, and memory that this may take.

The two sides run in alternating blocks inside the process: identical code against itself reads
0.996–1.005 this way, where whole runs repeated one after the other spread by 14 %. Probes run when
all else has been recorded: they go on training the model.
"""

from __future__ import annotations

import contextlib
import math
import resource
import time
from collections.abc import Callable
from typing import Any

from ..process.process import in_words
from .budget import Budget
from .device import seconds_of
from .estimating import FEWEST, estimate

BLOCKS = FEWEST
PROBE_S = 0.9
CALLS = 2 * FEWEST + 4
"""A probe calls its two sides at least about so many times."""
MOST_BLOCKS = 30
NOISY = 4
"""A probe whose ratio is not decided takes at most so many times as long as usual."""
GAIN = 1.03
"""A ratio that is surely above it is a gain, one that is surely below it is none."""
CLOSE = 1.05
"""A ratio that is known to within it is known: smaller gains are no findings."""

SIDES = (1024, 2048, 4096, 8192)
"""Rows and columns of a large product; the rate of GPUs rises up to the last."""
LARGE_S = 0.005
"""A product that takes so long is large: what starting it costs is no part of its time."""

CGROUP = "/sys/fs/cgroup"


class NotOffered(Exception):  # noqa: N818 - an outcome, not an error
    """A probe cannot be made here; the text says why."""


class NotDone(NotOffered):
    """A probe that could be made here, but for the time or a fault."""


class NotNeeded(NotOffered):
    """A probe of something that is there already, or that could not change anything."""


NOT_NEEDED = "it would change nothing there"


def attempt(
    driver: Any, name: str, probe: Callable[[], None], deadline: float, takes_s: float = 0.0
) -> str:
    """Make a probe if there is time for it; return why there is none, "" where there is one.

    That is recorded as well, with whether the probe `applies` here, unless it is not needed.
    """
    now = time.monotonic()
    try:
        if now + takes_s > deadline:
            raise NotDone(Budget.of(driver).lacking(max(takes_s, PROBE_S), now))
        probe()
        return ""
    except NotNeeded:
        return NOT_NEEDED
    except Exception as error:
        reason = str(error) if isinstance(error, NotOffered) else in_words(error)
        applies = isinstance(error, NotDone) or not isinstance(error, NotOffered)
    driver.record.write("missing", what=f"probe {name}", reason=reason, applies=applies)
    return reason


def alternate(
    driver: Any,
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
    one_off = once(driver, candidate)
    base()
    candidate()
    driver.sync()
    base_s = max(1e-6, once(driver, base))
    began = time.monotonic()
    spare = max(0.2, min(PROBE_S, deadline - began))
    count = max(1, int(spare / (2 * BLOCKS) / base_s))
    ends = began + NOISY * max(PROBE_S, 2 * BLOCKS * base_s)
    sides = [("base", base, count, 1)]
    sides += [("candidate", candidate, max(1, count // per_candidate), per_candidate)]
    blocks: dict[str, list[float]] = {"base": [], "candidate": []}
    for taken in range(1, MOST_BLOCKS + 1):
        for label, call, calls, steps in sides:
            blocks[label].append(seconds_of(driver.device, calls, call) / steps)
        sides.reverse()
        now = time.monotonic()
        if taken > 1 and now > ends:
            break
        if taken >= FEWEST and (now > deadline or _decided(**blocks)):
            break
    steps = max(1, count // per_candidate) * per_candidate * len(blocks["candidate"])
    driver.record.write("probe", name=name, one_off=one_off, steps=steps, detail=detail, **blocks)
    driver.record.flush()


def once(driver: Any, call: Callable[[], Any]) -> float:
    """Seconds of a single call, waited for."""
    began = time.monotonic()
    call()
    driver.sync()
    return time.monotonic() - began


def _decided(base: list[float], candidate: list[float]) -> bool:
    """Whether the ratio of the two is known well enough: a gain, none, or close to its value."""
    ratio = estimate([math.log(one / other) for one, other in zip(base, candidate, strict=True)])
    half, line = math.inf if ratio.half is None else ratio.half, math.log(GAIN)
    return ratio.value - half > line or ratio.value + half < line or half <= math.log(CLOSE)


def available() -> int | None:
    """Bytes that can be allocated before the machine or the container runs out.

    The lower of `MemAvailable` and what the control group has left (its file cache
    counted as free); None where neither can be read.
    """
    free = []
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as lines:
        found = dict(line.split(":", 1) for line in lines)
        free += [int(found["MemAvailable"].split()[0]) * 1024] if "MemAvailable" in found else []
    with contextlib.suppress(OSError, ValueError):  # no limit reads "max"
        with open(f"{CGROUP}/memory.max") as most, open(f"{CGROUP}/memory.current") as used:
            left = int(most.read()) - int(used.read())
        with open(f"{CGROUP}/memory.stat") as lines:
            free.append(left + int(dict(map(str.split, lines)).get("inactive_file", 0)))
    return min(free, default=None)


def doubles(processes: int = 1) -> bool:
    """Whether there is as much again as this process took at most: twice the samples fit then.

    So it must be for each of the `processes` that take it at the same time.
    """
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    left = available()
    return left is None or most * processes <= left


def large_product(
    driver: Any, product_of: Callable[[int], Callable[[], Any]]
) -> tuple[Callable[[], Any], int]:
    """A product that `product_of` makes, large enough for its device, and its rows and columns."""
    for side in SIDES:
        product = product_of(side)
        product()  # sets up what the first one needs
        if once(driver, product) >= LARGE_S:
            break
    return product, side
