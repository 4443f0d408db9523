"""A way out of runs that failed before their first step for a reason that is known."""

from __future__ import annotations

import os
import shlex

from trainperf.model import Event, Recording
from trainperf.report.assemble.gpu_failures import gpu_failure

MULTI_WORKER = "MultiWorkerMirroredStrategy"

PER_REPLICA = "Attempt to convert a value (PerReplica"
"""How Keras 3's `fit` fails under several workers (tried with Keras 3.15; keras#20585)."""

KERAS_FIT = (
    "The `fit` of Keras 3 does not work under MultiWorkerMirroredStrategy (keras#20585). Two ways "
    "out: a loop of your own with `strategy.experimental_distribute_dataset` and "
    "`strategy.run`, or Keras 2: install tf_keras and set TF_USE_LEGACY_KERAS=1"
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

_OPEN_MPI = "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Open MPI; PMI_RANK, PMI_SIZE of others)"
OWN_NAMES = {
    "mpirun": _OPEN_MPI,
    "mpiexec": _OPEN_MPI,
    "srun": "SLURM_PROCID and SLURM_NTASKS",
}
"""Launchers that tell ranks their place in variables of their own, and in which."""

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
"""Variables that launchers set, and scripts read with `os.environ[…]`."""


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
    return gpu_failure(recording)


def _launcher(recording: Recording) -> str:
    """How the script gets what a rank is told in its environment."""
    command = recording.run.command
    name = os.path.basename(command[0]) if command else ""
    if name in OWN_NAMES:
        variables = OWN_NAMES[name]
        return (
            f"{name} does not set RANK and WORLD_SIZE, which the script reads: start it by "
            f"torchrun in place of {name}, or let it read {variables}, and give these to "
            "`init_process_group` with an `init_method`"
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
