"""`trainperf diagnose` as one rank of a job: observe it, and leave a record for `merge`.

The other ranks have a trainperf of their own, mostly on other hosts. Nothing is tried
here: a change would have to be made in all ranks at once.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trainperf import store
from trainperf.commands import redaction
from trainperf.commands.progress import Progress
from trainperf.commands.session import run_of, write_trace
from trainperf.errors import TrainperfError
from trainperf.machine import inspect_machine
from trainperf.machine.after_run import probe_storage
from trainperf.machine.price import with_price
from trainperf.model import Ending
from trainperf.model.words import count
from trainperf.ranks import Place, records
from trainperf.ranks.records import RankRecord
from trainperf.run.event_files import training
from trainperf.run.launch import launch
from trainperf.run.spawn import OUTPUT, interruptible
from trainperf.settings import default_output_dir

if TYPE_CHECKING:
    from rich.console import Console

    from trainperf.commands.session import Target
    from trainperf.settings import Settings

SAGEMAKER = Path("/opt/ml")
"""SageMaker uploads what lies in `output/data` of it on all hosts when the job ends."""
UNGUARDED = "not guarded: what the script itself writes; ranks may have to read what another wrote"


def run(target: Target, settings: Settings, place: Place, console: Console) -> int:
    """Observe this rank and save its record; return the exit status.

    Ctrl-C, and the SIGTERM by which launchers end the ranks that are left when one has
    failed, end the run, not the record. Raises `TrainperfError` where the run directory
    cannot be used, holds records of another job, or the script cannot be started.
    """
    where = run_folder(place, settings)
    folder = _joined(where, place)
    record = _record(target, place, settings.price_per_hour)
    progress = Progress(console, settings.quiet)  # lines only: many ranks share a terminal
    kind = "host" if place.by == "SageMaker" else "rank"
    who = f"{kind} {place.rank} of {place.world_size}"
    with interruptible() as interrupted:
        records.save(record, folder)
        if place.rank == 0:
            progress.note(f"{who}: observing {target.label}; records go to {where}")
            progress.note(UNGUARDED)
        try:
            # a job that was started again must not read what its ranks agreed on before
            board = records.BOARD + (f"-{place.restarts}" if place.restarts else "")
            own = replace(run_of(target, settings), board=str(where / board))
            recording = launch(own, folder, lambda _: None, interrupted)
        except TrainperfError as error:
            records.save(replace(record, ending=Ending.FAILED, problem=str(error)), folder)
            raise
        if place.local_rank == 0 and record.machine is not None:
            recording = probe_storage(recording, record.machine, interrupted)
            record = replace(record, machine=with_price(record.machine))
        recording = redaction.of_recording(recording)
        store.save_recording(recording, folder / store.RECORDING_FILE)
        imported = recording.of("import")
        frameworks = {str(event["name"]): str(event["version"]) for event in imported}
        records.save(replace(record, ending=recording.ending, frameworks=frameworks), folder)
        records.clean(folder)
        said = f"{who}: {records.ended(recording) or 'measured'}"
        if not training(recording.events):
            said += "; no training loop was seen"
        if recording.ending.badly:
            said += f"; what it printed: {folder / OUTPUT}"
        if place.rank == 0:
            said += f". When all have ended: trainperf merge {where}"
        progress.note(said)
        if settings.trace is not None and place.rank == 0:
            trace = write_trace(recording, settings.trace)
            said = f"a trace of {count(trace.steps, 'step')} is in {trace.file}"
            if trace.reason:
                said = f"no step was traced: {trace.reason}"
            progress.note(f"{who}: {said}")
    if recording.ending.badly:
        return 3
    return 130 if recording.ending is Ending.INTERRUPTED else 0


def run_folder(place: Place, settings: Settings, sagemaker: Path = SAGEMAKER) -> Path:
    """The run directory: the same on all ranks that see the same disk.

    Raises `TrainperfError` where nothing names the job and no folder was given.
    """
    if settings.run_dir is not None:
        return settings.run_dir.absolute()
    if not place.job_id:
        raise TrainperfError(
            f"{place.by} gives this job no name by which all its ranks could find one folder",
            "name a folder for their records, the same for all: --run-dir DIR",
        )
    base, uploaded = settings.output_dir, sagemaker / "output" / "data"
    on_sagemaker = (sagemaker / "input" / "config").is_dir()
    if on_sagemaker and base == default_output_dir() and os.access(uploaded, os.W_OK):
        base = uploaded / "trainperf"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", place.job_id).strip("-.") or "unnamed"
    return base.absolute() / f"job-{name}"


def _joined(where: Path, place: Place) -> Path:
    """The folder of this rank's record, made, in a run directory that is of this job."""
    folder = records.folder_of(where, place.rank)
    try:
        where.mkdir(parents=True, exist_ok=True)
        first = next((path for _, path in records.folders(where)), None)
        if first is None and (where / store.DIAGNOSIS_FILE).exists():
            raise TrainperfError(
                f"{where} holds a run of one process", "name another folder with --run-dir"
            )
        for path in {folder, first or folder}:
            _check(path, place, own=path == folder)
        folder.mkdir(exist_ok=True)
        records.remove(folder)
    except OSError as error:
        raise records.unwritable(where, error) from error
    return folder


def _check(folder: Path, place: Place, own: bool) -> None:
    """Refuse a run directory with a record that is not of this start of this job."""
    if not (folder / records.RANK_FILE).exists():
        return
    other = records.load(folder)
    again = other.place.restarts < place.restarts  # the launcher started all ranks anew
    if other.place.job_id != place.job_id:
        text = f"{folder.parent} holds records of another job ({other.job})"
    elif own and not again:
        text = f"{folder.parent} already holds a record of rank {place.rank} of {other.job}"
    else:
        return
    raise TrainperfError(
        text, "name another folder with --run-dir, the same on all ranks, or remove this one"
    )


def _record(target: Target, place: Place, price_per_hour: float | None) -> RankRecord:
    script = str((target.cwd / target.script).absolute()) if target.script else ""
    return RankRecord(
        place=place,
        host=socket.gethostname(),
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        command=redaction.words(target.command),
        cwd=str(target.cwd),
        label=target.label,
        script=script,
        script_sha256=records.digest(script) if script else "",
        machine=inspect_machine(directory=target.cwd, price_per_hour=price_per_hour),
    )
