"""`trainperf merge`: the records of a job's ranks joined into one diagnosis.

Ranks are compared by the steps and blocks that they counted, never by wall clock: the
clocks of hosts differ by more than a step takes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from trainperf import store
from trainperf.diagnose import Request
from trainperf.diagnose.judging import first_verdict
from trainperf.errors import TrainperfError
from trainperf.evidence import read
from trainperf.evidence.events import NoLoop, choose
from trainperf.evidence.parallel import NO_LOOP, summarise
from trainperf.fixes.findings import shown_findings
from trainperf.machine import inspect_machine
from trainperf.model import Diagnosis, Ending, Event, Evidence, Rank, Recording, Trials
from trainperf.model.words import ranks as ranks_in_words
from trainperf.ranks import records
from trainperf.ranks.records import RankRecord
from trainperf.report.assemble.diagnosis import without_loop

T = TypeVar("T")
HINT = "each rank makes one: torchrun --no-python … trainperf diagnose --run-dir DIR train.py"
STOPPED = (Ending.INTERRUPTED, Ending.FAILED, Ending.SIGNALLED)
NOT_TRIED = "each rank was observed by itself: trials need the whole job under one trainperf"
LEFT = re.compile(
    "Connection (closed|reset)|remote (worker|process|peer)|Broken pipe|Socket closed|"
    "NCCL|DistBackendError|DistNetworkError|UnavailableError|Timed out waiting",
    re.IGNORECASE,
)
"""Errors of gloo, NCCL and gRPC in a rank whose peer is gone, by message or class."""
LAST = 1500
DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a record of other values than a run writes gives, wherever it is read."""


def merge(
    folder: Path,
    ignore: tuple[str, ...] = (),
    progress: Callable[[float], None] = lambda fraction: None,
) -> Diagnosis:
    """Join the records in the run directory `folder` into one diagnosis.

    `ignore` are ids of findings to leave out; `progress` is told the share that was
    read. What is missing, cannot be read or does not fit is named in the notes. Raises
    `TrainperfError` where there is no record, none can be read, or they are of several jobs.
    """
    began = time.monotonic()
    ranks = read_ranks(folder, progress)
    assert ranks.kept is not None
    lead, recording = ranks.kept
    recording = _of_the_job(recording, ranks.failed)
    machine = lead.record.machine or inspect_machine()
    request = Request(recording.run, folder, ignore, trials=False)
    notes = (*ranks.notes, *_differing(ranks.members))
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
        script = lead.record.script
        if lead.record.script_sha256 not in ("", records.digest(script)):
            diagnosis = _without_edits(diagnosis, evidence)
            notes = (*notes, f"no patch was made: {script} is not here as rank {lead.rank} ran it")
    notes = tuple(dict.fromkeys((*notes, *diagnosis.notes)))
    return replace(diagnosis, notes=notes, seconds=time.monotonic() - began)


def _of_the_job(recording: Recording, failed: tuple[Found, Recording] | None) -> Recording:
    """The recording, ended as the job did.

    Where one rank fails, the others lose their connections or are stopped by the
    launcher: how they ended is not what a reader looks for.
    """
    if failed is None or recording.ending not in STOPPED:
        return recording
    member, culprit = failed
    tail = culprit.output_tail
    return replace(
        recording,
        ending=culprit.ending,
        exit_status=culprit.exit_status,
        output_tail=tail and f"rank {member.rank}, on {member.record.host}:\n{tail}",
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


def _without_edits(diagnosis: Diagnosis, evidence: Evidence) -> Diagnosis:
    """The diagnosis without what was written from files that are not the job's."""
    told = {found.id: found.snippet for found in shown_findings(evidence, lambda fix, error: None)}
    findings = tuple(
        replace(finding, snippet=told.get(finding.id, finding.snippet), rewritable=False)
        for finding in diagnosis.findings
    )
    return replace(diagnosis, findings=findings, patch=None)


def _differing(members: Sequence[Found]) -> Iterator[str]:
    """Ranks that ran another script, with another framework or trainperf than the first."""
    first = ranks_in_words([members[0].rank])
    scripts = _grouped(members, lambda record: (record.label, record.script_sha256))
    looked_at = [(label, ranks) for (label, sha256), ranks in scripts.items() if sha256]
    for label, ranks in looked_at[1:]:
        yield f"{ranks_in_words(ranks)} ran another {label} than {first}: the figures are of both"
    for versions in (
        lambda record: ", ".join(map(" ".join, sorted(record.frameworks.items()))),
        lambda record: f"trainperf {record.trainperf_version}",
    ):
        groups = _grouped(members, versions)
        known = [(words, ranks) for words, ranks in groups.items() if words]
        for words, ranks in known[1:]:
            yield f"{ranks_in_words(ranks)} had {words}, {first} {known[0][0]}"


# Which records belong together, each reduced to its summary once read.


@dataclass(frozen=True)
class Found:
    """A rank's record and its folder."""

    record: RankRecord
    folder: Path

    @property
    def rank(self) -> int:
        """The number of its place."""
        return self.record.place.rank


@dataclass
class Ranks:
    """The ranks known so far, and the one recording that is kept whole.

    `members` are the records of one start of one job, by rank. `size` is the number of processes
    that train, which is more than that of the places that the launcher gave out where one
    trainperf observes all of a host. `failed` is the rank that made the job fail, as far as one
    can tell, without its events.
    """

    members: tuple[Found, ...]
    size: int
    notes: list[str]
    by_rank: dict[int, Rank] = field(default_factory=dict)
    kept: tuple[Found, Recording] | None = None
    failed: tuple[Found, Recording] | None = None
    trains: bool = False  # whether a loop was seen in the recording that is kept

    @property
    def absent(self) -> tuple[int, ...]:
        """The ranks of which there is no record, or none that can be read."""
        return tuple(rank for rank in range(self.size) if rank not in self.by_rank)


def read_ranks(folder: Path, progress: Callable[[float], None] = lambda fraction: None) -> Ranks:
    """Read all records, one at a time; memory does not grow with what they recorded.

    The recording of the lowest rank that trained is kept whole: what the report says
    of the script and its parts is what was seen there. A record that cannot be read
    becomes a note. Raises `TrainperfError` where none can be, or they are of several jobs.
    """
    ranks = _job(folder)
    errors: list[Exception] = []
    for number, member in enumerate(ranks.members):
        try:
            _take(ranks, member, records.load_recording(member.record, member.folder))
        except (TrainperfError, *DAMAGED) as error:
            why = str(error)
            begun = member.record.ending is None
            if begun and not (member.folder / store.RECORDING_FILE).exists():
                why = "it began and left no recording: it was killed, or has not ended yet"
            _without_loop(ranks, member, member.record.problem or why)
            errors.append(error)
        progress((number + 1) / len(ranks.members))
    if ranks.kept is None:
        raise TrainperfError(
            f"no rank left a recording; {errors[0]}", getattr(errors[0], "hint", HINT)
        )
    return ranks


def _job(folder: Path) -> Ranks:
    """The records of the last start of the job in a run directory, none of them read."""
    found, unreadable = [], {}
    try:
        names = list(records.folders(folder))
    except OSError as error:
        raise TrainperfError(
            f"{folder} cannot be read: {error.strerror}", "give the folder of a job's records"
        ) from error
    for number, path in names:
        try:
            found.append(Found(records.load(path), path))
        except TrainperfError as error:
            unreadable[number] = str(error)
    if not found:
        if not unreadable:
            raise TrainperfError(f"{folder} holds no records of ranks", HINT)
        number, why = next(iter(unreadable.items()))
        raise TrainperfError(f"no record in {folder} can be read; of rank {number}: {why}", HINT)
    notes = [f"{why}: rank {number} is not in the report" for number, why in unreadable.items()]
    last = max(member.record.place.restarts for member in found)
    old = [member.rank for member in found if member.record.place.restarts < last]
    if old:
        notes.append(f"left out: {ranks_in_words(old)}, recorded before the job was started again")
    members = tuple(member for member in found if member.rank not in old)
    jobs = _grouped(members, lambda record: (record.place.world_size, record.place.job_id))
    if len(jobs) > 1:
        ordered = sorted(jobs.items(), reverse=True)
        said = ", ".join(f"{size} for {ranks_in_words(ranks)}" for (size, _), ranks in ordered)
        raise TrainperfError(
            f"the ranks in {folder} are not of one job, or do not agree on how many they are: "
            f"{said}",
            "these are records of several jobs: move each job's into a folder of its own",
        )
    return Ranks(members, members[0].record.place.world_size, notes)


def _grouped(found: Sequence[Found], value: Callable[[RankRecord], T]) -> dict[T, list[int]]:
    """The ranks by what their records say, the first record's first."""
    groups: dict[T, list[int]] = {}
    for member in found:
        groups.setdefault(value(member.record), []).append(member.rank)
    return groups


def _take(ranks: Ranks, member: Found, recording: Recording) -> None:
    """Take in the ranks of one record, and keep it if it is the first of a process that trains."""
    ended = records.ended(recording)
    if recording.ending in (Ending.FAILED, Ending.SIGNALLED) and (
        ranks.failed is None or (_left(ranks.failed[1]) and not _left(recording))
    ):
        ranks.failed = (member, replace(recording, events={}, samples=()))
    trained = False
    for events in recording.events.values():
        rank = summarise(events, ended)
        if rank is not None:
            trained = True
            _add(ranks, member, rank, events)
    if not trained:
        _without_loop(ranks, member, ended or NO_LOOP)
    if not ranks.trains:
        try:
            choose(recording)
            ranks.kept, ranks.trains = (member, recording), True
        except NoLoop:
            ranks.kept = ranks.kept or (member, recording)


def _add(ranks: Ranks, member: Found, rank: Rank, events: Sequence[Event]) -> None:
    """Add a rank; where the process does not know which it is, its launcher does."""
    said = [int(event["world_size"] or 0) for event in events if event["e"] == "rank"]
    size = said[-1] if said else 0
    ranks.size = max(ranks.size, size)
    rank = replace(
        rank, rank=rank.rank if size else member.rank, host=rank.host or member.record.host
    )
    known = ranks.by_rank.get(rank.rank)
    if known is not None and known.ending == "measured":
        ranks.notes.append(
            f"rank {rank.rank} is recorded twice, on {known.host} and on {rank.host}: was "
            "each started as a job of its own?"
        )
    else:
        ranks.by_rank[rank.rank] = rank


def _left(recording: Recording) -> bool:
    """Whether a process failed because another one that it was connected to had gone."""
    return LEFT.search(recording.output_tail[-LAST:]) is not None


def _without_loop(ranks: Ranks, member: Found, why: str) -> None:
    host, rank = member.record.host, member.rank
    if rank in ranks.by_rank:  # the record is of a host, and another's ranks count on
        ranks.notes.append(f"{host}, place {rank} of the job: {why}")
    else:
        ranks.by_rank[rank] = Rank(rank, host, None, why, "cut short")
