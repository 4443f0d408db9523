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
    taken, torch = evidence.times, evidence.torch_
    wanted = [
        ("the step as it is", taken.real_),
        ("the step with free input", taken.resident_),
        ("the input alone", taken.input_),
        ("the stages of the input", evidence.stages_),
        ("a step by lines", evidence.lines_),
        ("the parts of a step", None if torch is None else torch.split_),
        (
            "what stands between the calls of `fit`",
            None if evidence.around is None else evidence.outside_,
        ),
    ]
    found = [(what, value.reason) for what, value in wanted if isinstance(value, Missing)]
    if torch is not None and torch.untraced:
        found.append(("the operators of a step", torch.untraced))
    found += _sending(evidence)
    if not recording.gpus and (why := _no_gpu(recording, evidence)):
        found.append(("GPU use", why))
    if evidence.machine.instance is not None and evidence.machine.price is None:
        found.append(("cost", "no price is known; --price-per-hour gives it"))
    return tuple(NotTaken(what, why) for what, why in [*found, *_exchange(evidence)])


def _sending(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The trackers that are called in a step and were kept off the network."""
    first: dict[str, LogCall] = {}
    for log in () if evidence.torch_ is None else evidence.torch_.logs:
        if log.unsent:
            first.setdefault(log.unsent, log)
    for tracker, log in first.items():
        place = "" if log.where is None else f" ({at(log.where)})"
        why = f"trackers are kept offline: `{log.what}`{place} took what writing to a file takes"
        yield f"what sending to {tracker} takes", why


def _no_gpu(recording: Recording, evidence: Evidence) -> str:
    """Why no GPU was sampled where CUDA or the instance has one; "" where none has."""
    reason = recording.gpu_reason or "no GPU was found"
    if evidence.device.kind == "GPU":
        return f"{reason}; what the GPU is, CUDA says: {evidence.device.name}"
    instance = evidence.machine.instance
    kind = None if instance is None else instance.type
    if instance is None or kind is None or not kind.gpus:
        return ""
    return f"{reason}, though {instance.name} has {kind.gpus} × {kind.gpu or 'GPU'}"


def _exchange(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Why the exchange of gradients is not known."""
    job = evidence.parallel_
    if job is None:
        return
    if job.exchange is None:
        cut = any(rank.ending != "measured" for rank in job.processes)
        yield "gradient exchange", CUT if cut else UNKNOWN
    elif isinstance(cost := job.exchange.seconds_, Missing):
        yield "gradient exchange", cost.reason
    if job.scaling_reason:
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
    work: dict[WorkUnit, float | None] = {
        "real tokens": loop.real_tokens,
        "samples": loop.batch_size,
        "steps": 1,
    }
    unit, amount = next((unit, amount) for unit, amount in work.items() if amount)
    made = [
        ExperimentChange(
            finding=findings[trial.fix],
            why=_why(trial),
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


def _why(trial: Trial) -> str:
    """The reason why it is another training: its losses differ, or it changes it by design."""
    if trial.outcome is Outcome.LOSSES_DIFFER:
        return f"It was to keep the numbers, but {(trial.reason or trial.parity).rstrip('.')}."
    fix = by_id().get(trial.fix)
    text = fix.documentation if fix is not None else ""
    return " ".join(text.partition(HEADINGS[1])[2].partition(HEADINGS[2])[0].split())


def _ways(made: Trial, trials: Sequence[Trial]) -> Iterator[Trial]:
    """The way that is made, then the others that pay."""
    yield made
    for one in trials:
        same = one.fix == made.fix and one.variant != made.variant
        if same and one.outcome is Outcome.CHANGES and one.speedup is not None:
            yield one
