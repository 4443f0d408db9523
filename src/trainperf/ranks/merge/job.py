"""Which records of a run directory belong together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainperf.errors import TrainperfError
from trainperf.model.words import ranks as ranks_in_words
from trainperf.ranks import records
from trainperf.ranks.records import RankRecord

HINT = "each rank makes one: torchrun --no-python … trainperf diagnose --run-dir DIR train.py"


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
    size = _size(members, folder)
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


def _one_job(found: list[Found], notes: list[str]) -> list[Found]:
    jobs: dict[str, list[Found]] = {}
    for one in found:
        jobs.setdefault(one.record.place.job_id, []).append(one)
    chosen = max(
        jobs.values(), key=lambda found: (len(found), max(each.record.began for each in found))
    )
    for each in jobs.values():
        if each is not chosen:
            ranks = [one.rank for one in each]
            notes.append(
                f"left out: {ranks_in_words(ranks)} of {each[0].record.job}; the report is on "
                f"{chosen[0].record.job}"
            )
    return chosen


def _last_start(found: list[Found], notes: list[str]) -> list[Found]:
    """Without the ranks that only took part before the launcher started all anew."""
    last = max(one.record.place.restarts for one in found)
    old = [one.rank for one in found if one.record.place.restarts < last]
    if old:
        verb = "record is" if len(set(old)) == 1 else "records are"
        notes.append(
            f"left out: {ranks_in_words(old)}, whose {verb} from before the job was started again"
        )
    return [one for one in found if one.record.place.restarts == last]


def _size(found: Iterable[Found], folder: Path) -> int:
    sizes: dict[int, list[int]] = {}
    for one in found:
        sizes.setdefault(one.record.place.world_size, []).append(one.rank)
    if len(sizes) > 1:
        said = ", ".join(
            f"{size} for {ranks_in_words(ranks)}"
            for size, ranks in sorted(sizes.items(), reverse=True)
        )
        raise TrainperfError(
            f"the ranks in {folder} do not agree on how many they are: {said}",
            "these are records of several jobs: move each job's into a folder of its own",
        )
    return next(iter(sizes))
