"""The ranks of a job: which records belong together, each reduced to its summary once read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.evidence.events import NoLoop, choose
from trainperf.evidence.ranks import NO_LOOP, summarise
from trainperf.model import Ending, Event, Rank, Recording
from trainperf.model.words import ranks as ranks_in_words
from trainperf.ranks import records
from trainperf.ranks.records import RankRecord

T = TypeVar("T")
HINT = "each rank makes one: torchrun --no-python … trainperf diagnose --run-dir DIR train.py"
LEFT = re.compile(
    "Connection (closed|reset)|remote (worker|process|peer)|Broken pipe|Socket closed|"
    "NCCL|DistBackendError|DistNetworkError|UnavailableError|Timed out waiting",
    re.IGNORECASE,
)
"""Errors of gloo, NCCL and gRPC in a rank whose peer is gone, by message or class."""
LAST = 1500

DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a record of other values than a run writes gives, wherever it is read."""


@dataclass(frozen=True)
class Found:
    """A rank's record and its folder."""

    record: RankRecord
    folder: Path

    @property
    def rank(self) -> int:
        """The number of its place."""
        return self.record.place.rank


@dataclass(frozen=True)
class Job:
    """The records of one start of one job, by rank, and what had to be left out.

    `size` is the number of places that the launcher gave out.
    """

    members: tuple[Found, ...]
    size: int
    notes: tuple[str, ...]


def read_job(folder: Path) -> Job:
    """Find the records of the job in a run directory.

    Where there are records of several jobs, that with most of them is taken. Raises
    `TrainperfError` where there are none, or where they disagree on how many they are.
    """
    found, unreadable = _found(folder)
    if not found and unreadable:
        number, why = next(iter(unreadable.items()))
        raise TrainperfError(f"no record in {folder} can be read; of rank {number}: {why}", HINT)
    if not found:
        raise TrainperfError(f"{folder} holds no records of ranks", HINT)
    notes: list[str] = []
    members = _one_job(found, notes)
    members = _last_start(members, notes)
    size = _agreed_size(members, folder)
    notes += [f"{why}: rank {number} is not in the report" for number, why in unreadable.items()]
    return Job(tuple(sorted(members, key=lambda one: one.rank)), size, tuple(notes))


def _found(folder: Path) -> tuple[list[Found], dict[int, str]]:
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
    return found, unreadable


def grouped(found: Iterable[Found], value: Callable[[RankRecord], T]) -> dict[T, list[int]]:
    """The ranks by what their records say, the first record's first."""
    groups: dict[T, list[int]] = {}
    for each in found:
        groups.setdefault(value(each.record), []).append(each.rank)
    return groups


def _one_job(found: list[Found], notes: list[str]) -> list[Found]:
    """The records of the job that has most of them; of as many, of the later one."""
    jobs = grouped(found, lambda record: record.place.job_id)
    leading = {member.record.place.job_id: member.record for member in reversed(found)}
    chosen = max(jobs, key=lambda job: (len(jobs[job]), leading[job].began))
    for job, ranks in jobs.items():
        if job != chosen:
            left_out = f"left out: {ranks_in_words(ranks)} of {leading[job].job}"
            notes.append(f"{left_out}; the report is on {leading[chosen].job}")
    return [member for member in found if member.record.place.job_id == chosen]


def _last_start(found: list[Found], notes: list[str]) -> list[Found]:
    """Without the ranks that only took part before the launcher started all anew."""
    last = max(member.record.place.restarts for member in found)
    old = [member.rank for member in found if member.record.place.restarts < last]
    if old:
        notes.append(f"left out: {ranks_in_words(old)}, recorded before the job was started again")
    return [member for member in found if member.record.place.restarts == last]


def _agreed_size(found: Iterable[Found], folder: Path) -> int:
    sizes = grouped(found, lambda record: record.place.world_size)
    if len(sizes) > 1:
        ordered = sorted(sizes.items(), reverse=True)
        said = ", ".join(f"{size} for {ranks_in_words(ranks)}" for size, ranks in ordered)
        raise TrainperfError(
            f"the ranks in {folder} do not agree on how many they are: {said}",
            "these are records of several jobs: move each job's into a folder of its own",
        )
    return next(iter(sizes))


@dataclass
class Ranks:
    """The ranks known so far, and the one recording that is kept whole.

    `size` is the number of processes that train, which is more than that of the
    records where one trainperf observes all of a host. `failed` is the rank that made the
    job fail, as far as one can tell, without its events.
    """

    size: int
    by_rank: dict[int, Rank] = field(default_factory=dict)
    kept: tuple[Found, Recording] | None = None
    notes: list[str] = field(default_factory=list)
    failed: tuple[Found, Recording] | None = None
    trains: bool = False  # whether a loop was seen in the recording that is kept

    @property
    def absent(self) -> tuple[int, ...]:
        """The ranks of which there is no record, or none that can be read."""
        return tuple(rank for rank in range(self.size) if rank not in self.by_rank)


def read_ranks(job: Job, progress: Callable[[float], None] = lambda fraction: None) -> Ranks:
    """Read all records, one at a time; memory does not grow with what they recorded.

    The recording of the lowest rank that trained is kept whole: what the report says
    of the script and its parts is what was seen there. A record that cannot be read
    becomes a note. Raises `TrainperfError` where none can be.
    """
    ranks = Ranks(job.size)
    errors: list[Exception] = []
    for number, one in enumerate(job.members):
        try:
            _take(ranks, one, records.load_recording(one.record, one.folder))
        except (TrainperfError, *DAMAGED) as error:
            _unread(ranks, one, error)
            errors.append(error)
        progress((number + 1) / len(job.members))
    if ranks.kept is None:
        raise TrainperfError(
            f"no rank left a recording; {errors[0]}", getattr(errors[0], "hint", HINT)
        )
    return ranks


def _take(ranks: Ranks, one: Found, recording: Recording) -> None:
    ended = records.ended(recording)
    _blame(ranks, one, recording)
    found = [
        (_placed(rank, events, one), events)
        for events in recording.events.values()
        if (rank := summarise(events, ended)) is not None
    ]
    for rank, events in found:
        ranks.size = max(ranks.size, _size(events))
        known = ranks.by_rank.get(rank.rank)
        if known is not None and known.ending == "measured":
            ranks.notes.append(
                f"rank {rank.rank} is recorded twice, on {known.host} and on {rank.host}: was "
                "each started as a job of its own?"
            )
            continue
        ranks.by_rank[rank.rank] = rank
    if not found:
        _without_loop(ranks, one, ended or NO_LOOP)
    _keep(ranks, one, recording)


def _blame(ranks: Ranks, one: Found, recording: Recording) -> None:
    """Remember the first rank that failed of itself; any that failed where there is none."""
    if recording.ending not in (Ending.FAILED, Ending.SIGNALLED):
        return
    if ranks.failed is None or (_left(ranks.failed[1]) and not _left(recording)):
        ranks.failed = (one, replace(recording, events={}, samples=()))


def _left(recording: Recording) -> bool:
    """Whether a process failed because another one that it was connected to had gone."""
    return LEFT.search(recording.output_tail[-LAST:]) is not None


def _keep(ranks: Ranks, one: Found, recording: Recording) -> None:
    """Keep the first recording of a process that trained, or the first of all."""
    if ranks.trains:
        return
    try:
        choose(recording)
    except NoLoop:
        if ranks.kept is None:
            ranks.kept = (one, recording)
    else:
        ranks.kept, ranks.trains = (one, recording), True


def _placed(rank: Rank, events: Iterable[Event], one: Found) -> Rank:
    """The rank with its launcher's word on which it is, where the process has none."""
    if _size(events) == 0:
        rank = replace(rank, rank=one.rank)
    return rank if rank.host else replace(rank, host=one.record.host)


def _size(events: Iterable[Event]) -> int:
    said = [int(event["world_size"] or 0) for event in events if event["e"] == "rank"]
    return said[-1] if said else 0


def _unread(ranks: Ranks, one: Found, error: Exception) -> None:
    if one.record.problem:
        why = one.record.problem
    elif one.record.ending is None and not (one.folder / store.RECORDING_FILE).exists():
        why = "it began and left no recording: it was killed, or has not ended yet"
    else:
        why = str(error)
    _without_loop(ranks, one, why)


def _without_loop(ranks: Ranks, one: Found, why: str) -> None:
    place = one.record.place
    if place.rank in ranks.by_rank:  # the record is of a host, and another's ranks count on
        ranks.notes.append(f"{one.record.host}, place {place.rank} of the job: {why}")
        return
    ranks.by_rank[place.rank] = Rank(place.rank, one.record.host, None, why, "cut short")
