"""Write what `--trace` asked for, or say why there is nothing to write."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import trainperf
from trainperf import store
from trainperf.child.timing.tracing import WHAT
from trainperf.model import Event, Recording, TraceFile
from trainperf.model.words import count
from trainperf.trace import tracer_files, tracks
from trainperf.trace.events import Clock, TraceEvent, in_order

LEVEL = 5
"""Of the compression: a trace of 80 MB takes two seconds, to a twentieth of its size."""


def profile_folder(file: Path) -> Path:
    """Where the profile for TensorBoard goes that belongs to the trace in `file`."""
    name = file.name.removesuffix(".gz").removesuffix(".json")
    return file.with_name(f"{name}-tensorboard")


def rank_file(file: Path, rank: int) -> Path:
    """The file of one rank, where each has a trainperf of its own."""
    stem, dot, endings = file.name.partition(".")
    return file.with_name(f"{stem}-rank{rank}{dot}{endings}")


def write(recording: Recording, file: Path) -> TraceFile:
    """Write the trace of a run's steps to `file`, compressed if its name ends in `.gz`.

    What the tracers left is removed. Raises nothing: where there is no trace, or it cannot
    be written, the value says why.
    """
    made = _Trace(recording, file)
    try:
        if not made.traced:
            return TraceFile(str(file), reason=_why_not(recording))
        made.collect()
        data = msgspec.json.encode(made.whole())
        if file.name.endswith(".gz"):
            data = gzip.compress(data, LEVEL, mtime=0)
        store.write_whole(file, data)
        made.copy_profiles()
    except OSError as error:
        return TraceFile(str(file), reason=f"{file} cannot be written: {error.strerror}")
    finally:
        made.clean()
    return TraceFile(
        str(file),
        steps=made.steps,
        processes=len(made.traced),
        profile=str(profile_folder(file)) if made.profiles else "",
        notes=tuple(dict.fromkeys(made.notes)),
    )


@dataclass
class _Trace:
    """A trace in the making: the events of all processes that traced steps."""

    recording: Recording
    file: Path
    steps: int = 0
    notes: list[str] = field(default_factory=list)
    _events: list[TraceEvent] = field(default_factory=list)
    _head: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = [(_rank(events), events) for events in self.recording.events.values()]
        with_steps = [(rank, events, _steps(events)) for rank, events in found]
        self.traced = sorted(
            (
                (number if rank is None else rank, events, steps)
                for number, (rank, events, steps) in enumerate(with_steps)
                if steps is not None
            ),
            key=lambda one: one[0],
        )
        self.profiles = [
            (rank, Path(steps["profile"]))
            for rank, _, steps in self.traced
            if steps.get("profile") and Path(steps["profile"]).is_dir()
        ]

    def collect(self) -> None:
        """Gather the events: the tracers', and trainperf's own beside them."""
        clock = Clock(self.recording.started)
        several = len(self.traced) > 1
        self.steps = max(len(steps["steps"]) for _, _, steps in self.traced)
        for number, (rank, events, steps) in enumerate(self.traced):
            name = f"rank {rank}: trainperf" if several else "trainperf"
            self._events += tracks.of_process(events, number, name, clock)
            said = f"rank {rank}: " if several else ""
            self.notes += [f"{said}{note}" for note in steps.get("notes", ())]
            try:
                found = self._of_the_tracer(steps, clock, said)
            except tracer_files.Unreadable as error:
                self.notes.append(f"{said}the tracer's own events are not in it: {error}")
                continue
            self._events += tracer_files.numbered(found, rank) if several else found
        self._events += tracks.of_machine(self.recording.samples, clock)

    def _of_the_tracer(self, steps: Event, clock: Clock, said: str) -> list[TraceEvent]:
        if not steps.get("events"):
            return []
        trace = tracer_files.read(Path(steps["events"]))
        if len(self.traced) == 1:
            self._head = {key: trace[key] for key in tracer_files.KEPT if key in trace}
        events = tracer_files.on_our_clock(trace["traceEvents"], steps, clock)
        most = tracer_files.MOST_EVENTS // len(self.traced)
        found, kept = tracer_files.fitting(events, steps, most, clock)
        if kept < len(steps["steps"]):
            self.notes.append(
                f"{said}the tracer saw {len(events):,} events, more than fit; kept are those of "
                f"{count(kept, 'step')}"
            )
        return found

    def whole(self) -> dict[str, Any]:
        """The trace as the file has it."""
        return {
            "displayTimeUnit": "ms",
            **self._head,
            "otherData": {"trainperf": trainperf.__version__, "script": self.recording.run.label},
            "traceEvents": in_order(self._events),
        }

    def copy_profiles(self) -> None:
        """Put the profiles where TensorBoard finds them: one run, each process a host of it."""
        for rank, folder in self.profiles:
            for path in folder.glob("plugins/profile/*/*"):
                run = self.profiles[0][1].glob("plugins/profile/*")
                name = next(iter(sorted(run))).name
                to = profile_folder(self.file) / "plugins" / "profile" / name
                to.mkdir(parents=True, exist_ok=True)
                prefix = f"rank{rank}-" if len(self.profiles) > 1 else ""
                store.write_whole(to / f"{prefix}{path.name}", path.read_bytes())

    def clean(self) -> None:
        """Remove what the tracers left in the run's own folder."""
        for _, _, steps in self.traced:
            if steps.get("events"):
                with suppress(OSError):
                    Path(steps["events"]).unlink()
        for _, folder in self.profiles:
            shutil.rmtree(folder, ignore_errors=True)


def _steps(events: Sequence[Event]) -> Event | None:
    """The steps that a process traced."""
    return next((one for one in events if one["e"] == "traced_steps" and one["steps"]), None)


def _rank(events: Sequence[Event]) -> int | None:
    return next((int(one["rank"]) for one in events if one["e"] == "rank" and "rank" in one), None)


def _why_not(recording: Recording) -> str:
    """Why no step was traced, in the words of the process, or by how far the run came."""
    events = [one for each in recording.events.values() for one in each]
    said = (str(one["reason"]) for one in events if one["e"] == "missing" and one["what"] == WHAT)
    kinds = {one["e"] for one in events}
    if (reason := next(said, "")) or "loop" not in kinds:
        return reason or "no training loop was seen"
    if "tracing" in kinds:
        return "the run was over before the traced steps were"
    if "measured" in kinds:
        return "the run was over before a step could be traced"
    return "the script was over before its steps were measured"
