"""The job that ran beside its own diagnosis, and what it took of the machine."""

from __future__ import annotations

import os.path

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.report.document import STEP, Page, Section


def running(diagnosis: Diagnosis, page: Page) -> None:
    """Print what is to be known of the running job that was diagnosed."""
    job = diagnosis.running
    if job is None:
        return
    page.heading("The running job")
    since = job.began.replace("T", " ").replace("+00:00", " UTC")
    who = f"Process {job.pid}, started by process {job.started_by}, runs since {since}"
    if job.ended:
        text = f"{who}, and ended while this diagnosis was made."
    else:
        busy = "" if job.cores is None else f": it kept {units.cores(round(job.cores, 1))} busy"
        text = f"{who} and shared the machine with this diagnosis{busy}. Times may be longer."
    page.prose(text, indent=2)
    if job.changed:
        names = ", ".join(os.path.relpath(path, diagnosis.cwd) for path in job.changed)
        page.prose(f"Changed since it was started, and diagnosed as it is now: {names}.", indent=2)


SECTIONS = (Section("running", STEP, running, running),)
