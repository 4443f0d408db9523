"""The job that ran beside its own diagnosis, and what it took of the machine."""

from __future__ import annotations

import os.path

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.model.running import RunningJob
from trainperf.report.document import STEP, Page, Section


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


SECTIONS = (Section("running", STEP, running, running),)
