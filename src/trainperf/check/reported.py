"""The answer of a check as the report has it, with what it was made against."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trainperf import store
from trainperf.check.baseline import repeats_of
from trainperf.check.values import Baseline, Checked, Criteria, Judged
from trainperf.model import Check, CheckedTimes, Compared, Limits


def compared(saved: Baseline, path: Path) -> Compared:
    """Return what a baseline is known by, `path` being the file or folder it was read from."""
    file = store.resolve_run(path)
    return Compared(
        file=str(file),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        created=saved.created,
        trainperf_version=saved.trainperf_version,
        script=saved.script,
        hostname=saved.machine.hostname,
        runs=len(repeats_of(saved)),
    )


def reported(
    checked: Checked, against: Compared, wanted: Criteria, strict: bool, exit_status: int
) -> Check:
    """Return the answer with its figures and its limits, for the report. Pure."""
    return Check(
        outcome=checked.outcome,
        exit_status=exit_status,
        text=checked.line,
        reasons=checked.reasons,
        times=_times(checked.times),
        runs=checked.times.runs,
        limits=Limits(wanted.most, wanted.least, wanted.fail_on, strict),
        baseline=against,
    )


def _times(judged: Judged) -> CheckedTimes:
    low, high = judged.interval
    return CheckedTimes(
        basis="sample" if judged.by_samples else "step",
        before_s=judged.before_s,
        after_s=judged.after_s,
        change=judged.change,
        change_low=low,
        change_high=high,
        noise_before=judged.before_noise,
        noise_after=judged.after_noise,
        machine_change=judged.machine,
    )
