"""What was not measured, how far the numbers can be trusted, and changes of the experiment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainperf.fixes import HEADINGS, by_id
from trainperf.fixes.common.words import at, percent
from trainperf.model import (
    Evidence,
    ExperimentChange,
    Finding,
    LogCall,
    Loop,
    Measure,
    Missing,
    NotTaken,
    Outcome,
    Patch,
    Recording,
    Site,
    Trial,
)
from trainperf.model.diagnosis import WorkUnit
from trainperf.report.assemble.no_loop import last_place, way_out
from trainperf.report.level import took

WAITED = 0.02
"""Below this share of their time threads waited no longer than they do on a quiet machine."""

UNKNOWN = "no exchange of gradients that trainperf knows was seen"
CUT = "a rank ended before the exchange was looked at"


def not_measured(recording: Recording, evidence: Evidence) -> tuple[NotTaken, ...]:
    """What could have been measured and was not, each with its reason."""
    return tuple(NotTaken(what, why) for what, why in _lacks(recording, evidence))


def _lacks(recording: Recording, evidence: Evidence) -> Iterator[tuple[str, str]]:
    taken, torch, job = evidence.times, evidence.torch_, evidence.parallel_
    device, instance = evidence.device, evidence.machine.instance
    wanted = {
        "the step as it is": taken.real_,
        "the step with free input": taken.resident_,
        "the input alone": taken.input_,
        "the stages of the input": evidence.stages_,
        "a step by lines": evidence.lines_,
        "the parts of a step": None if torch is None else torch.split_,
        "what stands between the calls of `fit`": evidence.around and evidence.outside_,
    }
    yield from ((what, why.reason) for what, why in wanted.items() if isinstance(why, Missing))
    if torch is not None and torch.untraced:
        yield "the operators of a step", torch.untraced
    offline: dict[str, LogCall] = {}
    for log in () if torch is None else torch.logs:
        if log.unsent:
            offline.setdefault(log.unsent, log)
    for tracker, log in offline.items():
        place = f" ({at(log.where)})" if log.where else ""
        why = f"trackers are kept offline: `{log.what}`{place} took what writing to a file takes"
        yield f"what sending to {tracker} takes", why
    unseen, kind = recording.gpu_reason or "no GPU was found", instance and instance.type
    if not recording.gpus and device.kind == "GPU":
        yield "GPU use", f"{unseen}; what the GPU is, CUDA says: {device.name}"
    elif not recording.gpus and instance and kind and kind.gpus:
        has = f"{instance.name} has {kind.gpus} × {kind.gpu or 'GPU'}"
        yield "GPU use", f"{unseen}, though {has}"
    if instance is not None and evidence.machine.price is None:
        yield "cost", "no price is known; --price-per-hour gives it"
    if job is not None and job.exchange is None:
        cut = any(rank.ending != "measured" for rank in job.processes)
        yield "gradient exchange", CUT if cut else UNKNOWN
    elif job and job.exchange and isinstance(cost := job.exchange.seconds_, Missing):
        yield "gradient exchange", cost.reason
    if job is not None and job.scaling_reason:
        yield "the step on fewer devices", job.scaling_reason


def notes(recording: Recording, evidence: Evidence) -> tuple[str, ...]:
    """Notes on how far the numbers can be trusted."""
    texts = (last_place(recording), *_notes(recording, evidence), *run_notes(recording))
    return tuple(filter(None, texts))


def _notes(recording: Recording, evidence: Evidence) -> Iterator[str]:
    job, real = evidence.parallel_, evidence.times.real_
    for use in evidence.use if job is None else ():  # else its other ranks may have taken them
        if use.phase == "real" and (told := took(use.others_cores, evidence.machine.cores)):
            kept = ""
            if use.waited is not None and use.waited >= WAITED:
                kept = f", and kept its threads from them for {percent(use.waited)} of the time"
            yield f"{told} while the steps were timed{kept}: expect times to vary"
    if isinstance(real, Measure) and not real.blocks:
        timed = "one step" if real.steps == 1 else f"{real.steps} steps"
        yield f"only {timed} could be timed, so the times are rough"
    if isinstance(real, Measure) and real.disturbed:
        blocks = "1 block of steps was" if real.disturbed == 1 else f"{real.disturbed} blocks were"
        yield f"{blocks} timed beside busy neighbours and left out of the step's time"
    yield from _other_loops(recording, evidence)
    if job is not None:
        yield from job.notes
    if evidence.loop.updates_per_step > 1:
        yield f"a step here makes {evidence.loop.updates_per_step} updates"


def _other_loops(recording: Recording, evidence: Evidence) -> Iterator[str]:
    """Where the script trains besides the loop that was measured: it is said nothing of."""
    found = [(str(event["what"]), event) for event in recording.of("other")]
    found += [("loop", event["where"]) for event in recording.of("loop") if event.get("where")]
    own, told = evidence.loop.where, set()
    for what, where in found if own else ():
        place = Site(where["file"], where["line"])
        if own and place != Site(own.file, own.line) and place not in told:
            told.add(place)
            name = "call of `fit`" if what == "fit" else "loop"
            yield f"another {name} at {at(place)} was not measured"


def run_notes(recording: Recording) -> tuple[str, ...]:
    """Faults of the observer itself, and the way out of a failure that is known."""
    noted = (event["text"] for event in recording.of("note"))
    texts = (way_out(recording), *noted, recording.sampling_note)
    return tuple(dict.fromkeys(filter(None, texts)))


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
    unit: WorkUnit = "samples" if loop.batch_size else "steps"
    unit = "real tokens" if loop.real_tokens else unit
    amount, made = loop.real_tokens or loop.batch_size or 1, []
    for trial, patch in apart:
        if trial.fix not in findings or trial.speedup is None:
            continue
        paying = (
            other
            for other in trials
            if other.outcome is Outcome.CHANGES and other.speedup is not None
        )
        others = (one for one in paying if one.fix == trial.fix and one.variant != trial.variant)
        change = ExperimentChange(
            finding=findings[trial.fix],
            why=_why(trial),
            losses_differ=trial.outcome is Outcome.LOSSES_DIFFER,
            unit=unit,
            before_per_s=amount / ((on_top_s if trial.on_top else None) or plain_s),
            ways=(trial, *others),
            patch=patch,
        )
        made.append((trial.speedup, change))
    return tuple(change for _, change in sorted(made, key=lambda pair: -pair[0]))


def _why(trial: Trial) -> str:
    """The reason why it is another training: its losses differ, or it changes it by design."""
    if trial.outcome is Outcome.LOSSES_DIFFER:
        return f"It was to keep the numbers, but {(trial.reason or trial.parity).rstrip('.')}."
    fix = by_id().get(trial.fix)
    text = fix.documentation if fix is not None else ""
    return " ".join(text.partition(HEADINGS[1])[2].partition(HEADINGS[2])[0].split())
