"""How the trials measure a change that changes nothing: an A/A control, run after run.

The legs of trials are driven directly, so that no finding is needed. Each run compares
the script with itself several times: `control` is the control of every diagnosis, `itself` a
candidate whose changed source is the script's own, so that it takes the way of a fix.
Each gives an interval that should cover 1 at its stated rate. What its trial would keep is repeated
in fresh processes, as in a diagnosis. Targets: every speed-up within ±2 % on a quiet machine; at
most one of 100 candidates kept after that, on a busy one neither.

    python benchmarks/trials_control.py [--runs N] [--candidates N] [--script FILE]
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from _trials import EXAMPLES, QUIET, bench, candidate, clock, foot, head, leg_of, parser, verdict

from trainperf.model import Control, Ratio
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.outcome import trial
from trainperf.trial.queue import Queue
from trainperf.trial.ratio import CONFIDENCE
from trainperf.trial.repeat import repeat

TARGET = 0.02
LIMIT_S = 180.0
STEP_S = 0.1

Found = Ratio | Control


def one_run(script: Path, number: int, candidates: int) -> tuple[list[Found], int, int]:
    """Compare `script` with itself, with several candidates at once.

    Print and return what was found, how many candidates their trials would keep, and how many of
    these fresh processes confirm.
    """
    run, time_ = leg_of(script), clock(LIMIT_S)
    text = script.read_text(encoding="utf-8")
    same = [candidate(run, script, text, (f"itself {n}",)) for n in range(candidates)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Queue(bench(run, Path(folder), STEP_S)) as engine,
    ):
        try:
            measured = engine.compare(same, time_)
            baseline = engine.baseline()
        except LegFailed as failed:
            print(f"{number:3}  the script as it is {failed}", flush=True)
            return [], 0, 0
    made: list[Found] = []
    kept = [
        (one, with_it)
        for one, with_it in zip(measured, same, strict=True)
        if trial(one, baseline).kept
    ]
    stands = 0
    for one, with_it in kept:
        assert one.ratio is not None
        own = replace(run, env=QUIET)
        again = replace(with_it, run=replace(with_it.run, env=QUIET))
        with tempfile.TemporaryDirectory() as folder:
            came = repeat(bench(own, Path(folder), STEP_S), again, clock(60.0), one.ratio.low)
        stands += came.stands
        print(f"{number:3}  {one.name} again: {came.pairs} {came.reason}", flush=True)
    each = [
        ("control", baseline.control, ""),
        *((one.name, one.ratio, one.failure) for one in measured),
    ]
    for name, found, failure in each:
        if found is None:
            print(f"{number:3}  {name:8} not measured {failure}", flush=True)
            continue
        made.append(found)
        print(
            f"{number:3}  {name:8} {found.speedup:7.4f} {found.low:7.4f} {found.high:7.4f} "
            f"{found.pairs:6} {found.steps:6}  step {baseline.step_s * 1e3:.4g} ms",
            flush=True,
        )
    return made, len(kept), stands


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
    options.add_argument("--candidates", type=int, default=1)
    options.add_argument("--script", type=Path, default=EXAMPLES / "healthy.py")
    given = options.parse_args()
    began = time.monotonic()
    head()
    print(
        f"{given.script.name} against itself\nrun           speed-up    low    high  pairs  steps"
    )
    everything: list[Found] = []
    false = stood = 0
    for number in range(1, given.runs + 1):
        found, kept, stands = one_run(given.script.resolve(), number, given.candidates)
        everything += found
        false += kept
        stood += stands
    summary(everything)
    tried = given.runs * given.candidates
    print(f"{false} of {tried} candidates would be kept by their trials")
    met = verdict(stood <= tried / 100)
    print(f"{stood} of {tried} after fresh processes, target 1 of 100: {met}")
    foot(began)
