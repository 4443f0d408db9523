"""How far the numbers can be trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainperf.fixes import HEADINGS, by_id
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import (
    Evidence,
    ExperimentChange,
    Finding,
    Loop,
    Measure,
    Missing,
    Outcome,
    Patch,
    PhaseUse,
    Recording,
    Site,
    Trial,
)
from trainperf.model.diagnosis import WorkUnit
from trainperf.report.assemble.no_loop import last_place, way_out
from trainperf.report.level import took

WAITED = 0.02
"""Below this share of their time threads waited no longer than they do on a quiet machine."""

_OF_KERAS = re.compile(r"\s*In Keras\b.*?\.(?=\s|$)")
"""A sentence on Keras in what a fix says it changes."""

_IN_A_PARAGRAPH = re.compile(r"(?<!\n)\n(?![\n-])")
"""Ends of lines that neither end a paragraph nor begin an item."""

_KEEPS = "It was to keep the numbers, but {}."


def notes(recording: Recording, evidence: Evidence) -> tuple[str, ...]:
    """Notes on how far the numbers can be trusted."""
    where = last_place(recording)
    return (*([where] if where else []), *_notes(recording, evidence), *run_notes(recording))


def _notes(recording: Recording, evidence: Evidence) -> Iterator[str]:
    for use in () if _part_of_the_host(recording, evidence) else evidence.use:
        if use.phase == "real":
            yield from _neighbours(use, evidence.machine.cores)
    startup = evidence.startup
    if startup is not None and startup.tracing_s and startup.tracing_s > 5:
        yield f"tracing the first step took {ms(startup.tracing_s)}, once"
    real = evidence.times.real_
    if isinstance(real, Measure) and not real.blocks:
        yield f"only {real.steps} steps could be timed, so the times are rough"
    elif isinstance(real, Measure) and real.noise > 0.10:
        yield f"the step time varied by {percent(real.noise)} between blocks of steps"
    stalls = sum(
        measure.stalls
        for measure in (real, evidence.times.resident_)
        if isinstance(measure, Measure)
    )
    disturbed = real.disturbed if isinstance(real, Measure) else 0
    if disturbed:
        steps = "block of steps was" if disturbed == 1 else "blocks of steps were"
        yield f"{disturbed} {steps} timed beside busy neighbours and left out of the step's time"
    if stalls:
        yield (
            f"{stalls} blocks of steps took more than twice the usual time (the machine paused, "
            f"or something rare in the loop); the times are those of the middle half of the blocks"
            if stalls > 1
            else "one block of steps took more than twice the usual time (the machine paused, or "
            "something rare in the loop) and was left out of the times"
        )
    loop = evidence.loop
    if isinstance(real, Measure) and loop.epochs and loop.epoch_steps and loop.kind == "fit":
        whole = loop.epochs * loop.epoch_steps
        if whole < real.steps:
            note = f"this `fit` has {whole} steps in all and was continued to be timed"
            unseen = isinstance(evidence.outside_, Missing)
            again = "; if the script trains again after it, that was not looked at"
            yield note + (again if unseen else "")
    calls = None if evidence.torch_ is None else evidence.torch_.calls
    if calls is not None and calls.backwards >= 1.5 * max(1.0, calls.updates):
        yield (
            f"a step here goes backward {calls.backwards:.3g} times before it updates the weights"
        )
    yield from _other_loops(recording, evidence)
    if evidence.parallel_ is not None:
        yield from evidence.parallel_.notes
    if evidence.loop.updates_per_step > 1:
        yield f"a step here makes {evidence.loop.updates_per_step} updates"


def _neighbours(use: PhaseUse, cores: float) -> Iterator[str]:
    """The cores that other processes took while steps were timed, where they are many."""
    told = took(use.others_cores, cores)
    if not told:
        return
    kept = ""
    if use.waited is not None and use.waited >= WAITED:
        kept = f", and kept its threads from them for {percent(use.waited)} of the time"
    yield f"{told} while the steps were timed{kept}: expect times to vary"


def _other_loops(recording: Recording, evidence: Evidence) -> Iterator[str]:
    """Where the script trains besides the loop that was measured: it is said nothing of."""
    seen = [event for events in recording.events.values() for event in events]
    found = [(str(one["what"]), one) for one in seen if one["e"] == "other"]
    found += [("loop", one["where"]) for one in seen if one["e"] == "loop" and one.get("where")]
    own = evidence.loop.where
    told = set()
    for what, where in found:
        place = (where["file"], where["line"])
        if own is None or place == (own.file, own.line) or place in told:
            continue
        told.add(place)
        name = "call of `fit`" if what == "fit" else "loop"
        yield f"another {name} at {at(Site(*place))} was not measured"


def _part_of_the_host(recording: Recording, evidence: Evidence) -> bool:
    """Whether other ranks of the job ran on the host besides those of the recording.

    Where each rank has a trainperf of its own, the others are no strangers.
    """
    job = evidence.parallel_
    if job is None:
        return False
    recorded = {rank.host for rank in job.processes if rank.pid in recording.events}
    ranks = [rank for rank in job.processes if rank.host in recorded]
    return any(rank.pid not in recording.events for rank in ranks)


def run_notes(recording: Recording) -> tuple[str, ...]:
    """Faults of the observer itself, and the way out of a failure that is known."""
    known = way_out(recording)
    texts = [] if known is None else [known]
    texts += [
        event["text"]
        for events in recording.events.values()
        for event in events
        if event["e"] == "note"
    ]
    if recording.sampling_note:
        texts.append(recording.sampling_note)
    return tuple(dict.fromkeys(texts))


def experiment_changes(
    apart: Iterable[tuple[Trial, Patch]],
    findings: Mapping[str, Finding],
    trials: Sequence[Trial],
    steps_s: tuple[float | None, float | None],
    loop: Loop,
) -> tuple[ExperimentChange, ...]:
    """The changes of `apart`, each with the patch that makes it alone; what gives most first.

    `findings` are by id, `trials` all that were made. `steps_s` are what a step of the script as it
    is took in them, and of that on top of which others were tried, in seconds; `loop` says how many
    real tokens or samples it holds.
    """
    plain_s, on_top_s = steps_s
    if not plain_s:
        return ()
    work: dict[WorkUnit, float | None] = {
        "real tokens": loop.real_tokens,
        "samples": loop.batch_size,
        "steps": 1,
    }
    unit, amount = next((unit, amount) for unit, amount in work.items() if amount)
    made = [
        ExperimentChange(
            finding=findings[trial.fix],
            why=_why(trial, loop),
            losses_differ=trial.outcome is Outcome.LOSSES_DIFFER,
            unit=unit,
            before_per_s=amount / ((on_top_s if trial.on_top else None) or plain_s),
            ways=tuple(_ways(trial, trials)),
            patch=patch,
        )
        for trial, patch in apart
        if trial.fix in findings and trial.speedup is not None
    ]
    return tuple(sorted(made, key=lambda one: -(one.ways[0].speedup or 0.0)))


def _why(trial: Trial, loop: Loop) -> str:
    """The reason why it is another training: its losses differ, or it changes it by design.

    What a fix's text says of Keras is left out where it is not Keras's `fit` that trains.
    """
    if trial.outcome is Outcome.LOSSES_DIFFER:
        return _KEEPS.format((trial.reason or trial.parity).rstrip("."))
    fix = by_id().get(trial.fix)
    text = fix.documentation if fix is not None else ""
    changes = text.partition(HEADINGS[1])[2].partition(HEADINGS[2])[0].strip()
    text = _IN_A_PARAGRAPH.sub(" ", changes)
    return text if loop.kind == "fit" else _OF_KERAS.sub("", text)


def _ways(made: Trial, trials: Sequence[Trial]) -> Iterator[Trial]:
    """The way that is made, then the others that pay."""
    yield made
    for one in trials:
        same = one.fix == made.fix and one.variant != made.variant
        if same and one.outcome is Outcome.CHANGES and one.speedup is not None:
            yield one
