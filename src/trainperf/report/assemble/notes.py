"""What was not measured, how far the numbers can be trusted, and ways out of what failed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from trainperf.fixes import HEADINGS, by_id
from trainperf.fixes.common.words import at, percent
from trainperf.model import (
    Ending,
    Evidence,
    ExperimentChange,
    Finding,
    Framework,
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
from trainperf.model.words import seconds, share, size
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
    return tuple(filter(None, _notes(recording, evidence)))


def _notes(recording: Recording, evidence: Evidence) -> Iterator[str]:
    job, real = evidence.parallel_, evidence.times.real_
    yield last_place(recording)
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
    yield from run_notes(recording)


def _other_loops(recording: Recording, evidence: Evidence) -> Iterator[str]:
    """Where the script trains besides the loop that was measured: it is said nothing of."""
    own = evidence.loop.where
    seen = [event.get("where") for kind in ("other", "loop") for event in recording.of(kind)]
    for file, line in dict.fromkeys((where["file"], where["line"]) for where in seen if where):
        if own and (file, line) != (own.file, own.line):
            yield f"another training at {at(Site(file, line))} was not measured"


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


MULTI_WORKER = "MultiWorkerMirroredStrategy"

KERAS_FIT = (
    "The `fit` of Keras 3 does not work under MultiWorkerMirroredStrategy (keras#20585). Two ways "
    "out: a loop of your own with `strategy.experimental_distribute_dataset` and `strategy.run`, "
    "or Keras 2, which trainperf does not observe: install tf_keras and set TF_USE_LEGACY_KERAS=1"
)

S3_PATHS = (
    "TensorFlow 2.16 and later cannot open s3:// paths. Ways out: a SageMaker input channel in "
    "FastFile or File mode, the bucket mounted with mountpoint-s3, or a copy on a local disk; the "
    "script then reads local paths"
)

_HIDDEN = (
    "CUDA sees no GPU, though the driver lists some: CUDA_VISIBLE_DEVICES hides them, or the "
    "container was not given the `compute` capability"
)

_ERROR = re.compile(r"^(?:\[rank\d+\]: )?([\w.]*(?:Error|Exception): .*)", re.MULTILINE)
"""The last line of a traceback. TensorFlow's log has the words of CUDA's errors on machines
without a GPU as well, where nothing failed."""

_HELD = 0.25
"""Share of a GPU's memory that others must have held for it to be said."""

_NEEDED = re.compile(
    r"(?:arguments are required:|Missing (?:option|argument)|Missing mandatory value:) (.+)"
)
"""How argparse, click and Hydra say what a script was not given."""

_OF_TERMINAL = re.compile(r"\bstty\b|OSError: \[Errno 25\]")
NO_TERMINAL = (
    "The script asks its terminal how wide it is, and has none here, as in a job: "
    "`shutil.get_terminal_size()` takes 80 columns then"
)

_LOOKS_S = 3.0
"""So many seconds pass between two looks, see `child.process.process`."""


def way_out(recording: Recording) -> str | None:
    """Say what to do instead of what failed, in a sentence or two; None if it is not known.

    Read off the errors of each process, and off those in the last lines of the output: processes
    that were spawned print theirs themselves.
    """
    if recording.ending not in (Ending.FAILED, Ending.SIGNALLED):
        return None
    errors = (f"{event['type']}: {event.get('text', '')}" for event in recording.of("error"))
    text = "\n".join([*errors, *_ERROR.findall(recording.output_tail)])
    fitting = (told for pattern, told in _WAYS_OUT if re.search(pattern, text, re.IGNORECASE))
    for told in fitting:
        if way := told if isinstance(told, str) else told(recording):
            return way
    if needed := _NEEDED.search(recording.output_tail):
        names = needed.group(1).strip(" '\".")
        script = _script(recording)
        return f"It needs {names}: put that behind its name: `trainperf diagnose {script} …`"
    return NO_TERMINAL if _OF_TERMINAL.search(recording.output_tail) else None


def _keras_fit(recording: Recording) -> str:
    """The way out under several workers; another strategy fails so for another reason."""
    built = {event.get("cls") for event in recording.of("tf_strategy")}
    return KERAS_FIT if MULTI_WORKER in (built or recording.output_tail) else ""


def _launcher(recording: Recording) -> str:
    """How the script gets what a rank is told in its environment; "" for one that is told it."""
    if any(recording.of("rank")):
        return ""
    command = recording.run.command
    name = os.path.basename(command[0]) if command else ""
    if name in ("mpirun", "mpiexec", "srun"):
        return (
            f"{name} does not set RANK and WORLD_SIZE, which the script reads: start it by "
            f"torchrun in place of {name}, or set them from the variables that {name} sets"
        )
    return (
        "The script is to be started by a launcher, once for each rank: put the launcher "
        f"behind `--`: `trainperf diagnose -- torchrun --standalone --nproc_per_node 2 "
        f"{_script(recording)}`"
    )


def _script(recording: Recording) -> str:
    """The script with its arguments, as a launcher takes it."""
    command = recording.run.command
    by_python = command and command[0].rpartition("/")[2].startswith("python")
    return shlex.join(command[1:]) if by_python and len(command) > 1 else recording.run.label


def _full(recording: Recording) -> str:
    """A GPU whose memory ran out; who held it, where NVML said so before the run."""
    ran_out = "The memory of the GPU ran out"
    for gpu in recording.gpus:
        held, total = gpu.memory_before, gpu.memory_total
        if held and total and held >= _HELD * total and gpu.other_processes != 0:
            return (
                f"{ran_out}: others held {size(held)} of {size(total)} ({share(held / total)}) of "
                f"GPU {gpu.index} before the script began. End them (`nvidia-smi` lists them), or "
                "take another GPU"
            )
    return f"{ran_out}: a smaller batch, or activation checkpointing, takes less of it"


def _no_gpu(recording: Recording) -> str:
    if recording.gpus:
        return _HIDDEN
    why = f": {recording.gpu_reason}" if recording.gpu_reason else ""
    return f"CUDA finds no GPU here, and the script asks for one{why}"


_WAYS_OUT: tuple[tuple[str, str | Callable[[Recording], str]], ...] = (
    (r"Attempt to convert a value \(PerReplica", _keras_fit),
    (r"File system scheme 's3' not implemented", S3_PATHS),
    (
        (
            r"rendezvous: environment variable"
            r"|KeyError: '(?:(?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_ADDR)'"
        ),
        _launcher,
    ),
    (r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|OOM when allocating", _full),
    (
        r"no CUDA-capable device is detected|Found no NVIDIA driver|No CUDA GPUs are available",
        _no_gpu,
    ),
    (
        (
            r"driver on your system is too old|CUDA driver version is insufficient"
            r"|system not yet initialized|unsupported display driver"
            r"|CUDA(?: error:)? unknown error|CUDA_ERROR_UNKNOWN"
        ),
        "CUDA does not start: `trainperf doctor` says why",
    ),
)
"""How scripts fail before they train, and what to do: the first that fits and has a word."""


def framework_seen(recording: Recording) -> Framework:
    """The framework that was imported, if any; of two the first, which the script asked for."""
    first = next(recording.of("import"), None)
    if first is None:
        return Framework("", "")
    return Framework("torch" if first["name"] == "torch" else "tensorflow", first["version"])


def last_place(recording: Recording) -> str:
    """Say at which line a script stood that was given up, as a sentence; "" if that is not known.

    Of several processes, that of the line which was reached last.
    """
    if recording.ending not in (Ending.STALLED, Ending.OUT_OF_BUDGET, Ending.INTERRUPTED):
        return ""
    last = max(recording.of("at"), key=lambda event: float(event["t"]), default=None)
    if last is None:
        return ""
    place = at(Site(last["file"], last["line"], last["function"]))
    if not last["function"].startswith("<"):
        place = f"{place} in `{last['function']}`"
    within = f", in a call of `{last['into']}`" if last["into"] else ""
    passed = recording.ended - float(last["t"])
    since = f"had been for {seconds(passed)}" if passed > 2 * _LOOKS_S else "was"
    return f"When it was stopped, the script {since} at {place}{within}."
