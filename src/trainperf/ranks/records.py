"""The record of one rank in the run directory of its job, and how it is read again.

A run directory holds `rank-00000`, `rank-00001`, …, one folder for each trainperf of
the job. `rank.json` in it says who wrote it, from the start of its run on; so a rank
that was killed is told from one that never began. `recording.json` follows at its end.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trainperf
from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.model import FORMAT_VERSION, Ending, Machine, Recording, Run
from trainperf.model.words import signal_name
from trainperf.ranks import Place
from trainperf.run.event_files import EventFiles
from trainperf.run.spawn import output_tail

RANK_FILE = "rank.json"
BOARD = "board"
_FOLDER = re.compile(r"rank-([0-9]+)")


@dataclass(frozen=True)
class RankRecord:
    """Who recorded, where and what. `ending` is None until its run is over.

    `script` is the absolute path of the script, "" where a module or a command is run,
    `script_sha256` the digest of its bytes. `frameworks` are versions by module.
    `problem` says why there is no recording, where trainperf could tell.
    """

    place: Place
    host: str
    began: str  # ISO 8601, UTC, by the clock of its host
    command: tuple[str, ...]
    cwd: str
    label: str
    script: str = ""
    script_sha256: str = ""
    frameworks: dict[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    ending: Ending | None = None
    problem: str = ""
    trainperf_version: str = trainperf.__version__
    format_version: int = FORMAT_VERSION

    @property
    def job(self) -> str:
        """The job in words, for messages."""
        name = f"job {self.place.job_id}" if self.place.job_id else "a job without a name"
        return f"{name}, begun {self.began}"


def folder_of(run_dir: Path, rank: int) -> Path:
    """The folder of one rank."""
    return run_dir / f"rank-{rank:05d}"


def folders(run_dir: Path) -> Iterator[tuple[int, Path]]:
    """The folders of ranks in a run directory, by rank; raises `OSError`."""
    found = ((_FOLDER.fullmatch(path.name), path) for path in run_dir.iterdir())
    yield from sorted((int(name[1]), path) for name, path in found if name)


def digest(path: str | Path) -> str:
    """The SHA-256 of a file's bytes in hexadecimal, "" if it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def save(record: RankRecord, folder: Path) -> None:
    """Write who records; raises `TrainperfError` if it cannot be written."""
    store.save_value(record, folder / RANK_FILE)


def load(folder: Path) -> RankRecord:
    """Read who recorded; raises `TrainperfError` if that cannot be read."""
    return store.load_value(folder / RANK_FILE, RankRecord)


def load_recording(record: RankRecord, folder: Path) -> Recording:
    """Read what was recorded.

    Where trainperf itself was killed, the events that its processes wrote until then
    are all there is. Raises `TrainperfError` if nothing can be read.
    """
    file = folder / store.RECORDING_FILE
    files = EventFiles(folder, lambda event: None)
    if not file.exists():
        with suppress(OSError):
            files.read()
    found = {pid: tuple(events) for pid, events in files.events.items() if events}
    if not found:
        return store.load_recording(file)
    times = [event["t"] for events in found.values() for event in events]
    return Recording(
        run=Run(record.command, record.cwd, record.label),
        ending=Ending.SIGNALLED,
        exit_status=None,
        started=min(times),
        ended=max(times),
        events=found,
        output_tail=output_tail(folder),
    )


def clean(folder: Path) -> None:
    """Remove the events of processes: their recording has them all.

    Loader workers that outlive the loop leave some of the files they opened.
    """
    for pattern in ("events-*.jsonl", "reads-*.jsonl"):
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()


def remove(folder: Path) -> None:
    """Remove what an earlier start of the same job left behind of this rank."""
    for name in (store.RECORDING_FILE, RANK_FILE):
        (folder / name).unlink(missing_ok=True)
    clean(folder)


def ended(recording: Recording) -> str:
    """How a run ended; "" where all was measured."""
    run, status = recording.run, recording.exit_status
    return {
        Ending.FAILED: f"failed with exit status {status}",
        Ending.SIGNALLED: f"killed by {'a signal' if status is None else signal_name(status)}",
        Ending.STALLED: f"showed no sign of progress for {run.stall_s:.0f} s",
        Ending.OUT_OF_BUDGET: f"not through when the budget of {run.budget_s:.0f} s was over",
        Ending.INTERRUPTED: "interrupted",
        Ending.FINISHED: "ended by itself",
    }.get(recording.ending, "")


def unwritable(path: Path, error: OSError) -> TrainperfError:
    """The error of a run directory that this rank cannot use."""
    return TrainperfError(
        f"cannot write to {path}: {error.strerror}",
        "name a folder that every rank can write to with --run-dir",
    )
