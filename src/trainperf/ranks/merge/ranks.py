"""The ranks of a job, each reduced to its summary as soon as its record was read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.evidence.events import NoLoop, choose
from trainperf.evidence.ranks import NO_LOOP, summarise
from trainperf.model import Ending, Event, Rank, Recording
from trainperf.ranks import MOST_RANKS, records
from trainperf.ranks.merge.job import Found, Job

LEFT = re.compile(
    "Connection (closed|reset)|remote (worker|process|peer)|Broken pipe|Socket closed|"
    "NCCL|DistBackendError|DistNetworkError|UnavailableError|Timed out waiting",
    re.IGNORECASE,
)
"""Errors of gloo, NCCL and gRPC in a rank whose peer is gone, by message or class."""
LAST = 1500


DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a record of other values than a run writes gives, wherever it is read."""


def damaged(one: Found, error: Exception) -> TrainperfError:
    """The error of a record that can be read, and does not hold what it should."""
    return TrainperfError(
        f"the record in {one.folder.name} is damaged ({type(error).__name__}: {error})",
        "merge the others without that folder, or record the job again",
    )


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
    errors: list[TrainperfError] = []
    for number, one in enumerate(job.members):
        try:
            _take(ranks, one, records.load_recording(one.record, one.folder))
        except TrainperfError as error:
            _unread(ranks, one, error)
            errors.append(error)
        except DAMAGED as error:
            errors.append(damaged(one, error))
            _without_loop(ranks, one, str(errors[-1]))
        progress((number + 1) / len(job.members))
    if ranks.kept is None:
        raise TrainperfError(f"no rank left a recording; {errors[0]}", errors[0].hint)
    return ranks


def _take(ranks: Ranks, one: Found, recording: Recording) -> None:
    ended = records.ended(recording).removeprefix("was ")
    _blame(ranks, one, recording)
    found = [
        (_placed(rank, events, one), events)
        for events in recording.events.values()
        if (rank := summarise(events, ended)) is not None
    ]
    for rank, events in found:
        ranks.size = max(ranks.size, _size(events))
        known = ranks.by_rank.get(rank.rank)
        if known is not None and known.ended == "measured":
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
        rank = replace(rank, rank=one.rank, local_rank=one.record.place.local_rank)
    return rank if rank.host else replace(rank, host=one.record.host)


def _size(events: Iterable[Event]) -> int:
    said = [int(event["world_size"] or 0) for event in events if event["e"] == "rank"]
    if said and not 0 <= said[-1] <= MOST_RANKS:
        raise ValueError(f"there is no job of {said[-1]} ranks")
    return said[-1] if said else 0


def _unread(ranks: Ranks, one: Found, error: TrainperfError) -> None:
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
    ranks.by_rank[place.rank] = Rank(place.rank, one.record.host, None, why, place.local_rank)
