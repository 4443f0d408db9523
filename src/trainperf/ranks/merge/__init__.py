"""`trainperf merge`: the records of a job's ranks joined into one diagnosis.

Ranks are compared by the steps and blocks that they counted, never by wall clock: the
clocks of hosts differ by more than a step takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trainperf.diagnose import Request
from trainperf.diagnose.judging import first_verdict
from trainperf.evidence import read
from trainperf.evidence.events import NoLoop
from trainperf.fixes.findings import shown_findings
from trainperf.machine import inspect_machine
from trainperf.model import Diagnosis, Ending, Evidence, Recording, Trials
from trainperf.model.words import ranks as ranks_in_words
from trainperf.ranks import records
from trainperf.ranks.merge.ranks import Found, Ranks, grouped, read_job, read_ranks
from trainperf.ranks.records import RankRecord
from trainperf.report.assemble.diagnosis import without_loop

STOPPED = (Ending.INTERRUPTED, Ending.FAILED, Ending.SIGNALLED)
NOT_TRIED = "each rank was observed by itself: trials need the whole job under one trainperf"


def merge(
    folder: Path,
    ignore: tuple[str, ...] = (),
    progress: Callable[[float], None] = lambda fraction: None,
) -> Diagnosis:
    """Join the records in the run directory `folder` into one diagnosis.

    `ignore` are ids of findings to leave out; `progress` is told the share that was
    read. What is missing, cannot be read or does not fit is named in the notes. Raises
    `TrainperfError` where there is no record, none can be read, or the world sizes of
    the ranks differ.
    """
    began = time.monotonic()
    job = read_job(folder)
    ranks = read_ranks(job, progress)
    assert ranks.kept is not None
    one, recording = ranks.kept
    recording = _of_the_job(recording, ranks.failed)
    machine = one.record.machine or inspect_machine()
    request = Request(recording.run, folder, ignore, trials=False)
    notes = (*job.notes, *ranks.notes, *differing(job.members))
    try:
        evidence = read(recording, machine, tuple(ranks.by_rank.values()))
    except NoLoop as error:
        diagnosis = without_loop(recording, machine, error, began)
        notes = (*_missing(ranks), *notes)
    else:
        if evidence.parallel_ is None:  # the ranks do not know of each other
            notes = (*_missing(ranks), *notes)
        else:
            named = replace(evidence.parallel_, expected=ranks.size, absent=ranks.absent)
            evidence = replace(evidence, parallel_=named)
        diagnosis = first_verdict(request, recording, evidence)
        diagnosis = replace(diagnosis, trying=Trials("none", reason=NOT_TRIED))
        if not _is_here(one.record):
            diagnosis = _without_edits(diagnosis, evidence)
            where = one.record.script or one.record.label
            notes = (*notes, f"no patch was made: {where} is not here as rank {one.rank} ran it")
    notes = tuple(dict.fromkeys((*notes, *diagnosis.notes)))
    return replace(diagnosis, notes=notes, seconds=time.monotonic() - began)


def _of_the_job(recording: Recording, failed: tuple[Found, Recording] | None) -> Recording:
    """The recording, ended as the job did.

    Where one rank fails, the others lose their connections or are stopped by the
    launcher: how they ended is not what a reader looks for.
    """
    if failed is None or recording.ending not in STOPPED:
        return recording
    one, culprit = failed
    said = culprit.output_tail
    return replace(
        recording,
        ending=culprit.ending,
        exit_status=culprit.exit_status,
        output_tail=said and f"rank {one.rank}, on {one.record.host}:\n{said}",
    )


def _missing(ranks: Ranks) -> Iterator[str]:
    if ranks.absent:
        yield f"{ranks_in_words(ranks.absent)} of {ranks.size} left no record"
    by_reason: dict[str, list[int]] = {}
    for rank in ranks.by_rank.values():
        if rank.ending != "measured":
            by_reason.setdefault(rank.ended, []).append(rank.rank)
    for why, which in by_reason.items():
        yield f"{ranks_in_words(which)}: {why}"


def _is_here(record: RankRecord) -> bool:
    """Whether the script lies here as it was run; True where nobody looked at it then."""
    return not record.script_sha256 or records.digest(record.script) == record.script_sha256


def _without_edits(diagnosis: Diagnosis, evidence: Evidence) -> Diagnosis:
    """The diagnosis without what was written from files that are not the job's."""
    told = {one.id: one.snippet for one in shown_findings(evidence, lambda fix, error: None)}
    findings = tuple(
        replace(one, snippet=told.get(one.id, one.snippet), rewritable=False)
        for one in diagnosis.findings
    )
    return replace(diagnosis, findings=findings, patch=None)


def differing(members: Sequence[Found]) -> Iterator[str]:
    """Ranks that ran another script, with another framework or trainperf than the first."""
    first = ranks_in_words([members[0].rank])
    scripts = grouped(members, lambda record: (record.label, record.script_sha256))
    looked_at = [(label, ranks) for (label, sha256), ranks in scripts.items() if sha256]
    for label, ranks in looked_at[1:]:
        yield f"{ranks_in_words(ranks)} ran another {label} than {first}: the figures are of both"
    for versions in (_frameworks, lambda record: f"trainperf {record.trainperf_version}"):
        groups = grouped(members, versions)
        known = [(words, ranks) for words, ranks in groups.items() if words]
        for words, ranks in known[1:]:
            yield f"{ranks_in_words(ranks)} had {words}, {first} {known[0][0]}"


def _frameworks(record: RankRecord) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(record.frameworks.items()))
