"""What a diagnosis that ran nothing rests on: a trace of a profiler's."""

from __future__ import annotations

from trainperf.model import Diagnosis, Evidence, TraceRead
from trainperf.model import words as units
from trainperf.report.document import CHANGES, Page, Section

SMALL = 0.02
"""Below this share of a step nothing is worth a word."""


def predicted(diagnosis: Diagnosis, page: Page) -> None:
    """Print what was read, what it says of the GPU, and how to have the changes tried."""
    read = diagnosis.read_from
    if read is None:
        return
    page.heading("Predicted from a trace, not tried")
    page.prose(
        f"{units.count(read.steps, 'step')} of {read.file} were read; its profiler made them "
        "longer than they are. To have the changes tried: trainperf diagnose SCRIPT",
        indent=2,
    )
    for sentence in _of_the_gpu(diagnosis.evidence, read):
        page.item(sentence)


def _of_the_gpu(evidence: Evidence, read: TraceRead) -> list[str]:
    busy, real, trace = evidence.times.device_s, evidence.times.real, evidence.torch.trace
    said = []
    if busy is not None:
        text = f"The GPU is busy for {units.share(min(1.0, busy / real))} of each step"
        if trace is not None and trace.unqueued_s and trace.unqueued_s > SMALL * real:
            idle = units.seconds(trace.unqueued_s)
            text += f"; for {idle} of it the host had not handed over its next kernel"
        said.append(f"{text}.")
    if read.workers and evidence.input_bound:
        said.append("Worker processes make the batches already: the items are what is slow.")
    if read.pageable_s > SMALL * real:
        said.append(
            f"{units.seconds(read.pageable_s)} of each step go into copies from memory that is not "
            "pinned: `pin_memory=True` in the loader, `non_blocking=True` in `.to(device)`."
        )
    return said


SECTIONS = (Section("predicted", CHANGES + 70, predicted, predicted),)
