"""The same script on fewer devices, with the same batch on each of them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainperf.evidence import read
from trainperf.evidence.events import NoLoop
from trainperf.evidence.parallel import with_scaling
from trainperf.model import (
    Ending,
    Event,
    Evidence,
    Measure,
    Parallel,
    Recording,
    Run,
    ScalingPoint,
    Strategy,
)
from trainperf.run.launch import launch
from trainperf.run.launchers import TORCHRUN, after, replaced, value

MEASURE_S = 2.5
"""The phases of a short run take so long; two fifths of it are real steps."""
WARM_UP_S = 6.0
"""A warm-up that does not settle ends after so many seconds, as `child.timing.loop` has it."""
MARGIN_S = 3.0
BUDGET_SHARE = 0.6
"""So much of the budget may be over when the last run on fewer devices ends."""
NPROC = ("--nproc-per-node", "--nproc_per_node")
MULTI = "MirroredStrategy"
THREADS = "OMP_NUM_THREADS"


def with_fewer_devices(
    recording: Recording,
    evidence: Evidence,
    folder: Path,
    began: float,
    interrupted: Callable[[], bool],
    on_event: Callable[[Event], None],
) -> Evidence:
    """The evidence with what the script gives on fewer devices, where it trains on several.

    `began` is when the diagnosis did, on `time.monotonic()`.
    """
    job = evidence.parallel_
    if job is None or job.replicas < 2:
        return evidence
    points: tuple[ScalingPoint, ...] = ()
    reason = "the run was not measured to its end"
    if recording.ending is Ending.MEASURED:
        deadline = began + BUDGET_SHARE * recording.run.budget_s
        points, reason = measure(recording, evidence, folder, deadline, interrupted, on_event)
    return replace(evidence, parallel_=with_scaling(job, points, reason))


def measure(
    recording: Recording,
    evidence: Evidence,
    folder: Path,
    deadline: float,
    interrupted: Callable[[], bool],
    on_event: Callable[[Event], None],
) -> tuple[tuple[ScalingPoint, ...], str]:
    """Run the script on 1, 2, 4, … of its devices; return the points, and why any is missing.

    `recording` and `evidence` are those of the observed run, the last of the points. Ends before
    `deadline`, on `time.monotonic()`. Efficiencies are left to `evidence.scaling`. No points at
    all where only the whole job could be had.
    """
    job = evidence.parallel_
    if job is None:
        return (), "one process trains on one device"
    whole = _point(job.replicas, evidence)
    if whole is None:
        return (), "the real step was not measured"
    run_on = _on_fewer(recording.run, job, evidence.strategy)
    if isinstance(run_on, str):
        return (), run_on
    points, reasons = [], []
    devices = _devices_of_a_process(job)
    start = evidence.startup.to_first_step_s if evidence.startup is not None else None
    first = recording.ended - recording.started if start is None else start
    needed = first + WARM_UP_S + 2 * MEASURE_S + MARGIN_S
    while devices < job.replicas:
        left = deadline - time.monotonic()
        if interrupted() or left < needed:
            why = "interrupted" if interrupted() else f"it needs {needed:.0f} s of the budget"
            reasons.append(f"{_on(devices)}: not run: {why}")
            break
        text = f"the script {_on(devices)}"
        on_event({"e": "trial", "text": text, "fraction": None, "expected_s": needed})
        short = replace(
            run_on(devices),
            measure_s=MEASURE_S,
            extra_s=0.0,
            budget_s=left - MARGIN_S,
            began=None,
            trials=False,
            trace=False,
        )
        found = _measured(short, devices, evidence, folder, interrupted)
        if isinstance(found, str):
            reasons.append(f"{_on(devices)}: {found}")
        else:
            points.append(found)
        devices *= 2
    return ((*points, whole) if points else ()), "; ".join(reasons)


def _on_fewer(run: Run, job: Parallel, strategy: Strategy | None) -> Callable[[int], Run] | str:
    """The run of the script on a number of devices, or why it cannot be on fewer."""
    if job.hosts > 1:
        return "its ranks run on several hosts, which their own launcher has to start"
    if job.absent:
        return "not all ranks of the job were seen"
    if job.expected < 2:
        if strategy is not None and strategy.cls == MULTI:
            return lambda devices: replace(run, devices=devices)
        return "the script itself says which devices it uses"
    at, each = after(run.command, TORCHRUN), _devices_of_a_process(job)
    if at is None:
        return "how many processes it starts is not said in its command"
    if value(run.command, at, NPROC) is None:
        return f"its command does not say {NPROC[0]}"
    # torchrun has it so for several ranks, not for one
    env = {THREADS: "1"} if THREADS not in {**os.environ, **run.env} else {}
    return lambda devices: replace(
        run,
        command=replaced(run.command, at, NPROC, str(devices // each)),
        env={**run.env, **env},
    )


def _devices_of_a_process(job: Parallel) -> int:
    return max(1, job.replicas // job.expected) if job.expected > 1 else 1


def _measured(
    run: Run, devices: int, whole: Evidence, folder: Path, interrupted: Callable[[], bool]
) -> ScalingPoint | str:
    """The point of a short run, or why there is none."""
    own = folder / f"devices-{devices}"
    try:
        recording = launch(run, own, interrupted=interrupted)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    if not recording.ending.complete:
        return f"the run ended early: {recording.ending.value}"
    try:
        evidence = read(recording, whole.machine)
    except NoLoop:
        return "no training loop was seen"
    job = evidence.parallel_
    used = job.replicas if job is not None else 1
    if used != devices:
        return f"it still ran on {used}"
    point = _point(devices, evidence)
    if point is None:
        return "the real step was not measured"
    before, now = _each(whole), _each(evidence)
    if before is not None and now is not None and abs(now / before - 1) > 0.01:
        return f"each device gets {now:g} samples a step, not {before:g} as on all of them"
    return point


def _point(devices: int, evidence: Evidence) -> ScalingPoint | None:
    real = evidence.times.real_
    if not isinstance(real, Measure):
        return None
    batch = evidence.loop.batch_size  # of all ranks together
    return ScalingPoint(devices, real.seconds, batch / real.seconds if batch else None)


def _each(evidence: Evidence) -> float | None:
    """Samples of a step on each device."""
    job, batch = evidence.parallel_, evidence.loop.batch_size
    return batch / (job.replicas if job is not None else 1) if batch else None


def _on(devices: int) -> str:
    return "on 1 device" if devices == 1 else f"on {devices} devices"
