"""A way out of runs that failed before their first step for a reason that is known."""

from __future__ import annotations

import os
import re
import shlex

from trainperf.fixes.common.words import at
from trainperf.model import Ending, Event, Framework, Gpu, Recording, Site
from trainperf.model.words import seconds, share, size

MULTI_WORKER = "MultiWorkerMirroredStrategy"

PER_REPLICA = "Attempt to convert a value (PerReplica"
"""How Keras 3's `fit` fails under several workers (tried with Keras 3.15; keras#20585)."""

KERAS_FIT = (
    "The `fit` of Keras 3 does not work under MultiWorkerMirroredStrategy (keras#20585). Two ways "
    "out: a loop of your own with `strategy.experimental_distribute_dataset` and `strategy.run`, "
    "or Keras 2, which trainperf does not observe: install tf_keras and set TF_USE_LEGACY_KERAS=1"
)

NO_S3 = "File system scheme 's3' not implemented"
"""How TensorFlow 2.16 and later fail to open such a path (tried with 2.21)."""

S3_PATHS = (
    "TensorFlow 2.16 and later cannot open s3:// paths. Ways out: a SageMaker input channel in "
    "FastFile or File mode, the bucket mounted with mountpoint-s3, or a copy on a local disk; the "
    "script then reads local paths"
)

RENDEZVOUS = "rendezvous: environment variable"
"""How `init_process_group` of PyTorch fails in a process that no launcher started."""

OWN_LAUNCHERS = ("mpirun", "mpiexec", "srun")
"""Launchers that tell ranks their place in variables of their own."""

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
"""Variables that launchers set, and scripts read with `os.environ[…]`."""

_ERROR = re.compile(r"^[\w.]*(?:Error|Exception): (.*)", re.MULTILINE)
"""The last line of a traceback. TensorFlow's log has the words of CUDA's errors on machines
without a GPU as well, where nothing failed."""

_FULL = re.compile(r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|OOM when allocating", re.I)
_HELD = 0.25
"""Share of a GPU's memory that others must have held for it to be said."""

_HIDDEN = (
    "CUDA sees no GPU, though the driver lists some: CUDA_VISIBLE_DEVICES hides them, or the "
    "container was not given the `compute` capability"
)

_OF_THE_GPU = (
    (
        r"CUDA-capable devices?(?:\(s\))? (?:is/)?are busy or unavailable",
        (
            "The GPU takes no other process: another has it to itself, its compute mode allows "
            "none, or it is out of order. `nvidia-smi` says which"
        ),
    ),
    (
        r"Torch not compiled with CUDA enabled",
        (
            "This PyTorch was built without CUDA, and the script asks for a GPU: install a build "
            "with CUDA, or let the script take the CPU"
        ),
    ),
    (
        (
            "driver on your system is too old|CUDA driver version is insufficient|system not yet "
            "initialized|unsupported display driver|CUDA(?: error:)? unknown error|"
            "CUDA_ERROR_UNKNOWN"
        ),
        "CUDA does not start: `trainperf doctor` says why",
    ),
)
"""How CUDA fails, and what to say of it."""

_NONE = re.compile(
    r"no CUDA-capable device is detected|Found no NVIDIA driver|No CUDA GPUs are available"
)

_GIVEN_UP = (Ending.STALLED, Ending.OUT_OF_BUDGET, Ending.INTERRUPTED)
NEEDED = re.compile(
    r"(?:arguments are required:|Missing (?:option|argument)|Missing mandatory value:) (.+)"
)
"""How argparse, click and Hydra say what a script was not given."""
_LOOKS_S = 3.0
"""So many seconds pass between two looks, see `child.process.process`."""


def way_out(recording: Recording) -> str | None:
    """Say what to do instead of what failed, in a sentence or two; None if it is not known.

    Read off the error and the strategies of each process, and off the last lines of the
    output: processes that were spawned print their errors themselves.
    """
    events = [event for one in recording.events.values() for event in one]
    if _failed_with(events, recording, PER_REPLICA) and _several_workers(events, recording):
        return KERAS_FIT
    if _failed_with(events, recording, NO_S3):
        return S3_PATHS
    if _lacks_a_launcher(events, recording):
        return _launcher(recording)
    if needed := NEEDED.search(recording.output_tail):
        names = needed.group(1).strip(" '\".")
        script = _script(recording)
        return f"It needs {names}: put that behind its name: `trainperf diagnose {script} …`"
    return gpu_failure(recording)


def _launcher(recording: Recording) -> str:
    """How the script gets what a rank is told in its environment."""
    command = recording.run.command
    name = os.path.basename(command[0]) if command else ""
    if name in OWN_LAUNCHERS:
        return (
            f"{name} does not set RANK and WORLD_SIZE, which the script reads: start it by "
            f"torchrun in place of {name}, or set them from the variables that {name} sets"
        )
    return (
        "The script is to be started by a launcher, once for each rank: put the launcher "
        f"behind `--`: `trainperf diagnose -- torchrun --standalone --nproc_per_node 2 "
        f"{_script(recording)}`"
    )


def _lacks_a_launcher(events: list[Event], recording: Recording) -> bool:
    """Whether it failed for want of the variables by which a rank knows its place."""
    if any(event["e"] == "rank" for event in events):
        return False
    asked = [event for event in events if event["e"] == "error" and event["type"] == "KeyError"]
    return _failed_with(events, recording, RENDEZVOUS) or any(
        str(event.get("text", "")).strip("'\"") in PLACE for event in asked
    )


def _script(recording: Recording) -> str:
    """The script with its arguments, as a launcher takes it."""
    command = recording.run.command
    by_python = command and command[0].rpartition("/")[2].startswith("python")
    return shlex.join(command[1:]) if by_python and len(command) > 1 else recording.run.label


def _failed_with(events: list[Event], recording: Recording, text: str) -> bool:
    errors = (str(event.get("text", "")) for event in events if event["e"] == "error")
    return any(text in error for error in errors) or text in recording.output_tail


def _several_workers(events: list[Event], recording: Recording) -> bool:
    """Whether a strategy of several workers was built; a lone worker's fails as well."""
    built = {event.get("cls") for event in events if event["e"] == "tf_strategy"}
    return MULTI_WORKER in built if built else MULTI_WORKER in recording.output_tail


def gpu_failure(recording: Recording) -> str | None:
    """Say why the GPU made the script fail; None if it did not fail, or for another reason."""
    if recording.ending not in (Ending.FAILED, Ending.SIGNALLED):
        return None
    errors = (e for events in recording.events.values() for e in events if e["e"] == "error")
    said = [*(str(error.get("text", "")) for error in errors)]
    text = "\n".join([*said, *_ERROR.findall(recording.output_tail)])
    if _FULL.search(text):
        return _full(recording.gpus)
    if _NONE.search(text):
        why = f": {recording.gpu_reason}" if recording.gpu_reason else ""
        none = f"CUDA finds no GPU here, and the script asks for one{why}"
        return _HIDDEN if recording.gpus else none
    return next((told for pattern, told in _OF_THE_GPU if re.search(pattern, text)), None)


def _full(gpus: tuple[Gpu, ...]) -> str:
    """A GPU whose memory ran out; who held it, where NVML said so before the run."""
    ran_out = "The memory of the GPU ran out"
    for gpu in gpus:
        held, total = gpu.memory_before, gpu.memory_total
        if held and total and held >= _HELD * total and gpu.other_processes != 0:
            return (
                f"{ran_out}: others held {size(held)} of {size(total)} ({share(held / total)}) of "
                f"GPU {gpu.index} before the script began. End them (`nvidia-smi` lists them), or "
                "take another GPU"
            )
    return f"{ran_out}: a smaller batch, or activation checkpointing, takes less of it"


def framework_seen(recording: Recording) -> Framework:
    """The framework that was imported, if any; of two the first, which the script asked for."""
    for events in recording.events.values():
        for event in events:
            if event["e"] == "import" and event["name"] == "torch":
                return Framework("torch", event["version"])
            if event["e"] == "import":
                return Framework("tensorflow", event["version"])
    return Framework("", "")


def last_place(recording: Recording) -> str:
    """Say at which line a script stood that was given up, as a sentence; "" if that is not known.

    Of several processes, that of the line which was reached last.
    """
    if recording.ending not in _GIVEN_UP:
        return ""
    seen = [event for events in recording.events.values() for event in events if event["e"] == "at"]
    if not seen:
        return ""
    last = max(seen, key=lambda event: float(event["t"]))
    place = at(Site(last["file"], last["line"], last["function"]))
    if not last["function"].startswith("<"):
        place = f"{place} in `{last['function']}`"
    within = f", in a call of `{last['into']}`" if last["into"] else ""
    passed = recording.ended - float(last["t"])
    since = f"had been for {seconds(passed)}" if passed > 2 * _LOOKS_S else "was"
    return f"When it was stopped, the script {since} at {place}{within}."
