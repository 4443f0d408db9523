"""What is said of runs that ended before their first step: a way out, where it is known."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable

from trainperf.fixes.common.words import at
from trainperf.model import Ending, Framework, Recording, Site
from trainperf.model.words import seconds, share, size

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
    return None


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
