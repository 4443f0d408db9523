"""Timing apart from the loop: a step against a variation of it, and memory that this may take.

The two sides run in alternating blocks inside the process: identical code against itself reads
0.996–1.005 this way, where whole runs repeated one after the other spread by 14 %. Probes run when
all else has been recorded: they go on training the model. Several ranks take the same turns at the
same time, as rank 0 says: in a step they compute at the same time as well.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import resource
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .device import seconds_of
from .estimating import FEWEST, estimate

if TYPE_CHECKING:
    from ..job.ranks import World

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
    is decided, or the probe's time is up. A rank that fails meanwhile lets the others know.
    """
    agreed = _agreement(driver.world, f"probe-{name}")
    try:
        one_off, calls, blocks = _timed(driver, agreed, deadline, base, candidate, per_candidate)
    except Exception:
        if driver.world is not None:
            driver.world.say(f"probe-{name}-left", True)
        raise
    steps = max(1, calls // per_candidate) * per_candidate * len(blocks["candidate"])
    driver.record.write("probe", name=name, one_off=one_off, steps=steps, detail=detail, **blocks)
    driver.record.flush()


def _agreement(world: World | None, probe: str) -> Callable[[Any], Any]:
    """What gives a value as rank 0 has it, once all ranks are there; a process alone its own."""
    passed = itertools.count(1)

    def agreed(value: Any) -> Any:
        if world is None:
            return value
        said = world.all_say(f"{probe}-{next(passed)}", value, unless=f"{probe}-left")
        if said is None:
            raise RuntimeError("another rank left the probe")
        return said[0]

    return agreed


def _timed(
    driver: Any,
    agreed: Callable[[Any], Any],
    deadline: float,
    base: Callable[[], Any],
    candidate: Callable[[], Any],
    per_candidate: int,
) -> tuple[float, int, dict[str, list[float]]]:
    """Seconds of the first call of the candidate, steps of a block, seconds per step of each."""
    one_off = _once(driver, candidate)
    base()
    candidate()
    driver.sync()
    once = max(1e-6, _once(driver, base))
    began = time.monotonic()
    spare = max(0.2, min(PROBE_S, deadline - began))
    count = agreed(max(1, int(spare / (2 * BLOCKS) / once)))
    ends = began + NOISY * max(PROBE_S, 2 * BLOCKS * once)
    blocks: dict[str, list[float]] = {"base": [], "candidate": []}
    for index in range(MOST_BLOCKS):
        order = (("base", base, 1), ("candidate", candidate, per_candidate))
        for label, call, steps in order if index % 2 == 0 else reversed(order):
            calls = max(1, count // steps)
            blocks[label].append(seconds_of(driver.device, calls, call) / steps)
        now, taken = time.monotonic(), index + 1
        over = taken > 1 and now > ends
        if taken >= FEWEST and not over:
            over = now > deadline or _decided(**blocks)
        if agreed(over):
            break
    return one_off, count, blocks


def _once(driver: Any, call: Callable[[], Any]) -> float:
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
        if _once(driver, product) >= LARGE_S:
            break
    return product, side
