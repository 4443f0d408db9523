"""Ways around an exchange of gradients that no change of the code makes cheap."""

from __future__ import annotations

from trainperf.model import Diagnosis
from trainperf.model.reported_parallel import ReportedParallel
from trainperf.report.document import STRONG, Page, say
from trainperf.report.sections.shares import EXPOSED

NOT_WORTH = "parallel_not_worth"
"""The finding that says the same with its numbers."""


def remains(diagnosis: Diagnosis, page: Page) -> None:
    """Say how a step has less of the exchange, where that is what the job is bound by."""
    job = diagnosis.parallel
    if job is None or job.exchange is None or diagnosis.verdict.bottleneck != "sync":
        return
    if not diagnosis.findings and not open_question(diagnosis):
        return
    if any(finding.id == NOT_WORTH for finding in diagnosis.findings) or not _dominates(job):
        return
    page.gap()
    page.prose(say("To exchange less often", STRONG))
    for way in _ways(job):
        page.item(way)
    page.prose(
        "Each changes the experiment: adjust the learning rate to the global batch, and compare "
        "the losses.",
        indent=2,
    )


def open_question(diagnosis: Diagnosis) -> bool:
    """Whether a whole run was slow, so that a reader asks why."""
    return (
        diagnosis.ending.complete
        and diagnosis.times.real_s is not None
        and not diagnosis.verdict.healthy
    )


def _ways(job: ReportedParallel) -> list[str]:
    ways = ["a larger batch per replica: the exchange takes as long for a large one"]
    if job.ddp and all((one.micro_steps or 1.0) <= 1.0 for one in job.ddp):
        ways.append("one update after several batches, all but the last under `model.no_sync()`")
    many = "ranks" if job.expected > 1 else "replicas"
    ways.append(f"fewer {many}: compare samples per second; or a faster link between them")
    return ways


def _dominates(job: ReportedParallel) -> bool:
    """Whether the exchange takes more of a step than a tenth, and than waiting for a rank."""
    found = job.exchange
    if found is None or not found.low_s or found.seconds_per_step is None:
        return False
    behind = max((late.behind_s for late in job.stragglers), default=0.0)
    return (found.share or 0.0) > EXPOSED and found.seconds_per_step >= behind
