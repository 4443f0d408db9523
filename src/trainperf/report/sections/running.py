"""The job that ran beside its own diagnosis: what it took of the machine, and where it was."""

from __future__ import annotations

import os.path

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.model.running import RunningJob, SampledPlace, SampledStacks
from trainperf.report.document import STEP, Page, Section
from trainperf.report.plain import place

MOST = 5
"""How many places of the samples are shown."""


def running(diagnosis: Diagnosis, page: Page) -> None:
    """Print what is to be known of the running job that was diagnosed."""
    job = diagnosis.running
    if job is None:
        return
    page.heading("The running job")
    page.prose(_beside(job, diagnosis.evidence.machine.cores), indent=2)
    if job.changed:
        names = ", ".join(os.path.relpath(one, diagnosis.cwd) for one in job.changed)
        page.prose(
            f"Changed since it was started: {names}. It runs what was there then; what was "
            "diagnosed is what is there now.",
            indent=2,
        )
    if job.stacks is None:
        page.prose(f"Where it is now was not sampled: {job.stacks_reason}.", indent=2)
    else:
        _stacks(job.stacks, diagnosis.cwd, page)


def _beside(job: RunningJob, cores: float) -> str:
    who = f"Process {job.pid}"
    if job.started_by != job.pid:
        who += f", started by process {job.started_by},"
    since = job.began.replace("T", " ").replace("+00:00", " UTC")
    if job.ended:
        return f"{who} ran from {since} on, and ended while this diagnosis was made."
    said = (
        f"{who} has run since {since}. This diagnosis left it alone, and shared the machine with it"
    )
    if job.cores is not None:
        said += f": it kept {units.number(job.cores, 2)} of {units.cores(cores)} busy"
    if job.gpu_memory:
        said += f" and held {units.size(job.gpu_memory)} of GPU memory"
    return (
        f"{said}. Times may be longer and vary more than on a free machine; a fix is compared with "
        "the script as it is under the same load."
    )


def _stacks(stacks: SampledStacks, cwd: str, page: Page) -> None:
    page.prose(
        f"Where the main thread of process {stacks.pid} was, {units.count(stacks.samples, 'time')} "
        f"in {units.seconds(stacks.seconds)} (py-spy, from outside):",
        indent=2,
    )
    rows = [_row(one, cwd) for one in stacks.places[:MOST]]
    page.table(rows, header=("share", "in", "at", "inside"), right=(0,), elastic=(3,), indent=4)


def _row(one: SampledPlace, cwd: str) -> tuple[str, str, str, str]:
    if one.where is None:
        return units.share(one.share), "", "", one.inside
    return units.share(one.share), one.where.function, place(one.where, cwd), one.inside


SECTIONS = (Section("running", STEP, running, running),)
