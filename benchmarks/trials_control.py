"""How the trials measure a change that changes nothing: an A/A control, run after run.

The legs of trials are driven directly, so that no finding is needed. Each run compares
the script with itself twice: `control` is the control of every diagnosis, `itself` a
candidate whose changed source is the script's own, so that it takes the way of a fix.
Each gives an interval that should cover 1 at its stated rate. Target: every speed-up
within ±2 % on a quiet machine.

    python benchmarks/trials_control.py [--runs N] [--script FILE]
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from pathlib import Path

from _trials import EXAMPLES, bench, candidate, clock, foot, head, leg_of, parser, verdict

from trainperf.model import Control, Ratio
from trainperf.trial.leg import LegFailed
from trainperf.trial.ratio import CONFIDENCE
from trainperf.trial.side_by_side import SideBySide

TARGET = 0.02
LIMIT_S = 180.0
STEP_S = 0.1

Found = Ratio | Control


def one_run(script: Path, number: int) -> list[Found]:
    """Compare `script` with itself, twice at once; print and return what was found."""
    run, time_ = leg_of(script), clock(LIMIT_S)
    same = candidate(run, script, script.read_text(encoding="utf-8"), ("itself",))
    with (
        tempfile.TemporaryDirectory() as folder,
        SideBySide(bench(run, Path(folder), STEP_S)) as engine,
    ):
        try:
            (measured,) = engine.compare([same], time_)
            baseline = engine.baseline()
        except LegFailed as failed:
            print(f"{number:3}  the script as it is {failed}", flush=True)
            return []
    made: list[Found] = []
    for name, found in (("control", baseline.control), ("itself", measured.ratio)):
        if found is None:
            print(f"{number:3}  {name:8} not measured {measured.failure}", flush=True)
            continue
        made.append(found)
        print(
            f"{number:3}  {name:8} {found.speedup:7.4f} {found.low:7.4f} {found.high:7.4f} "
            f"{found.pairs:6} {found.steps:6}  step {baseline.step_s * 1e3:.4g} ms",
            flush=True,
        )
    return made


def least_expected(count: int) -> int:
    """How many of `count` intervals cover at least, in 95 of 100 such benchmarks."""
    below = 0.0
    for covering in range(count + 1):
        chance = math.comb(count, covering) * CONFIDENCE**covering
        below += chance * (1 - CONFIDENCE) ** (count - covering)
        if below > 0.05:
            return covering
    return count


def summary(found: list[Found]) -> None:
    """Print how many intervals cover 1, the widest, and how far the speed-ups spread."""
    if not found:
        print("nothing was measured")
        return
    covering = sum(one.low <= 1 <= one.high for one in found)
    least = least_expected(len(found))
    print(
        f"{covering} of {len(found)} intervals cover 1, {covering / len(found):.0%} (stated "
        f"{CONFIDENCE:.0%}, so at least {least}: {verdict(covering >= least)})"
    )
    widths = [one.high - one.low for one in found]
    print(f"widest interval {max(widths):.1%}, usual {statistics.median(widths):.1%}")
    gains = [one.speedup - 1 for one in found]
    spread = statistics.stdev(gains) if len(gains) > 1 else 0.0
    furthest = max(abs(one) for one in gains)
    print(
        f"speed-ups {min(gains):+.2%} to {max(gains):+.2%}, standard deviation {spread:.2%}; "
        f"furthest from 1 {furthest:.2%}, target ±{TARGET:.0%}: {verdict(furthest <= TARGET)}"
    )


if __name__ == "__main__":
    options = parser(__doc__, 10, "comparisons with itself")
    options.add_argument("--script", type=Path, default=EXAMPLES / "healthy.py")
    given = options.parse_args()
    began = time.monotonic()
    head()
    print(
        f"{given.script.name} against itself\nrun           speed-up    low    high  pairs  steps"
    )
    everything: list[Found] = []
    for number in range(1, given.runs + 1):
        everything += one_run(given.script.resolve(), number)
    summary(everything)
    foot(began)
