"""How long a full report takes with eight candidates, at steps of about 100 ms.

A script with eight findings that can all be tried is rare, so the trials are driven
directly: `scripts/pauses.py` waits in each step, and each candidate changes one of its
pauses. Three do nothing or harm. The parts of a report are timed one by one: the
observed run (`trainperf diagnose --no-trials`), the trials of the eight, and the
winners together. The time is not cut off at the target. Target: at most 3 min.

    python benchmarks/trials_eight.py [--runs N]
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _runs import SCRIPTS
from _trials import bench, candidate, clock, diagnosis, foot, head, leg_of, parser, verdict

from trainperf.model import Control, Equivalence, Ratio, Run, Trial
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured, trial
from trainperf.trial.queue import Queue
from trainperf.trial.stack import Stacked, stack

TARGET_S = 180.0
LIMIT_S = 600.0
SCRIPT = SCRIPTS / "pauses.py"
PAUSES = re.compile(r"^PAUSES_MS = \[(.*)\]$", re.MULTILINE)
HARM_MS = 10
NAMES = tuple(f"pause_{number}" for number in range(1, 9))


@dataclass(frozen=True)
class Tried:
    """The eight, the script as it was measured, the stack; what they took, in seconds."""

    measured: list[Measured]
    baseline: Baseline
    stacked: Stacked
    trials_s: float
    stack_s: float
    legs: int


def pauses_without(names: Sequence[str]) -> list[int]:
    """The script's pauses, those of these names gone; the last one grows. Milliseconds."""
    found = PAUSES.search(SCRIPT.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{SCRIPT.name} has no line {PAUSES.pattern}")
    pauses = [int(one) for one in found[1].split(",")]
    for name in names:
        pauses[NAMES.index(name)] = HARM_MS if name == NAMES[-1] else 0
    return pauses


def without(base: Run, names: Sequence[str]) -> Candidate:
    """The candidate in which the pauses of these names are changed."""
    text, pauses = SCRIPT.read_text(encoding="utf-8"), pauses_without(names)
    changed = PAUSES.sub(f"PAUSES_MS = {pauses}", text) + f"# {'+'.join(names)}\n"
    return candidate(base, SCRIPT, changed, tuple(names))


def try_all(folder: Path) -> Tried:
    """Try the eight side by side, then the winners together, until all are decided."""
    run, time_ = leg_of(SCRIPT), clock(LIMIT_S)
    began = time.monotonic()
    with Queue(bench(run, folder, 0.1)) as engine:
        measured = engine.compare([without(run, (name,)) for name in NAMES], time_)
        baseline, between = engine.baseline(), time.monotonic()
        winners = [one for one in measured if outcome(one, baseline).kept]
        joined = stack(winners, baseline, lambda ids: without(run, ids), engine.compare, time_)
        baseline, ended = engine.baseline(), time.monotonic()
        return Tried(measured, baseline, joined, between - began, ended - between, engine.legs)


def outcome(measured: Measured, baseline: Baseline) -> Trial:
    """A candidate in the words of the report."""
    return trial(measured, Equivalence.EXACT, None, baseline)


def true(names: Sequence[str], step_s: float) -> float:
    """The speed-up that changing the pauses of these names must give."""
    saved = (sum(pauses_without(())) - sum(pauses_without(names))) / 1e3
    return step_s / (step_s - saved)


def line(name: str, found: Ratio | Control | None, truth: float, said: str) -> None:
    """Print what was measured of one candidate, beside what must come out."""
    figures, pairs = "not measured", 0
    if found is not None:
        figures, pairs = f"{found.speedup:.3f}× ({found.low:.3f} to {found.high:.3f})", found.pairs
    print(f"  {name:8} {figures:24} true {truth:.3f}×  {pairs:3} pairs  {said}")


def one_run() -> float:
    """Make one whole report, print its parts, return its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        observing_s = diagnosis(SCRIPT, Path(folder), "--no-trials")["seconds"]
        tried = try_all(Path(folder) / "trials")
    step_s = tried.baseline.step_s
    for one in tried.measured:
        said = outcome(one, tried.baseline)
        line(one.name, one.ratio, true((one.name,), step_s), f"{said.outcome} {said.reason}")
    line("control", tried.baseline.control, 1.0, f"step {step_s * 1e3:.0f} ms")
    fixes = tried.stacked.fixes
    line("stack", tried.stacked.ratio, true(fixes, step_s), ", ".join(fixes))
    took = observing_s + tried.trials_s + tried.stack_s
    print(
        f"  observed in {observing_s:.0f} s, eight candidates in {tried.trials_s:.0f} s, the stack "
        f"in {tried.stack_s:.0f} s, {tried.legs} legs: {took:.0f} s; target {TARGET_S:.0f} s: "
        f"{verdict(took <= TARGET_S)}",
        flush=True,
    )
    return took


if __name__ == "__main__":
    given = parser(__doc__, 1, "reports").parse_args()
    began = time.monotonic()
    head()
    times = []
    for number in range(1, given.runs + 1):
        print(f"report {number}", flush=True)
        times.append(one_run())
    if len(times) > 1:
        print(f"{min(times):.0f} to {max(times):.0f} s: {verdict(max(times) <= TARGET_S)}")
    foot(began)
