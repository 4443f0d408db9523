"""Which rank of a job this process is, from what its launcher put into the environment."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainperf.errors import TrainperfError
from trainperf.run.launchers import TORCHRUN, after, value

SAGEMAKER_CONFIG = "/opt/ml/input/config"
_FIRST_OF_SLURMS_OWN = 0xFFFFFFF0
"""Slurm gives the steps of batch scripts and of shells numbers from here on: no ranks."""

RESOURCES = "resourceconfig.json"
TF_CONFIG_HINT = (
    'it should be like {"cluster": {"worker": ["a:1", "b:1"]}, '
    '"task": {"type": "worker", "index": 0}}'
)


@dataclass(frozen=True)
class Place:
    """One of the `world_size` places that a launcher gave out; there are at least two.

    Mostly one rank of the job; one host of it where the launcher starts one process on
    each. `job_id` is the same in all places, and "" where nothing names the job.
    `restarts` counts how often the launcher started the whole job again. `by` names the
    launcher.
    """

    rank: int
    world_size: int
    by: str
    job_id: str = ""
    local_rank: int | None = None
    node: int | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        """Raise `ValueError` where there is no such place."""
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"there is no rank {self.rank} of {self.world_size}")


@dataclass(frozen=True)
class _Launcher:
    """The variables in which a launcher tells a process its place; of several, the first set."""

    by: str
    rank: str
    size: tuple[str, ...]
    local_rank: str
    node: str = ""
    restarts: str = ""
    job: tuple[str, ...] = ()


LAUNCHERS = (
    _Launcher(
        "torchrun",
        "RANK",  # WORLD_SIZE alone is often exported for a launcher that comes later
        ("WORLD_SIZE",),
        "LOCAL_RANK",
        "GROUP_RANK",
        "TORCHELASTIC_RESTART_COUNT",
        ("TORCHELASTIC_RUN_ID",),
    ),
    _Launcher(
        "mpirun",
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_SIZE",),
        "OMPI_COMM_WORLD_LOCAL_RANK",
        job=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    _Launcher(
        "srun",
        "SLURM_PROCID",
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_RESTART_COUNT",
    ),
    _Launcher("mpirun", "PMI_RANK", ("PMI_SIZE",), "MPI_LOCALRANKID"),
)


def find(environ: Mapping[str, str], sagemaker_dir: str | Path = SAGEMAKER_CONFIG) -> Place | None:
    """Return the place of this process; None where it is not one of several.

    torchrun's variables go first, then those of Open MPI, of srun, of MPICH's and Intel's
    mpirun, then `TF_CONFIG` and SageMaker's: a launcher that was started by
    another one knows the ranks. Raises `TrainperfError` where what they say cannot be.
    """
    for launcher in LAUNCHERS:
        if environ.get(launcher.rank) and not _of_daemons(launcher, environ):
            found: Place | None = _launched(launcher, environ)
            break
    else:
        found = _tf_config(environ) or _sagemaker(environ, Path(sagemaker_dir))
    return found if found is not None and found.world_size > 1 else None


def _of_daemons(launcher: _Launcher, environ: Mapping[str, str]) -> bool:
    """Whether Slurm's variables are those of a batch script, or of mpirun's daemons: no ranks."""
    if launcher.by != "srun":
        return False
    step = _number(environ, "SLURM_STEP_ID")
    if step is None or step >= _FIRST_OF_SLURMS_OWN:
        return True
    return environ.get("PMI_RANK", environ["SLURM_PROCID"]) != environ["SLURM_PROCID"]


def _launched(launcher: _Launcher, environ: Mapping[str, str]) -> Place:
    """The place that a launcher's variables name, if they agree with each other."""
    name = next((name for name in launcher.size if environ.get(name)), launcher.size[-1])
    rank, size = _number(environ, launcher.rank), _number(environ, name)
    if rank is None or size is None:
        raise TrainperfError(
            f"{launcher.rank} is set, but not {name}: which rank of how many is this?",
            f"set {name} as well, or unset {launcher.rank}",
        )
    if not 0 <= rank < size:
        raise TrainperfError(
            f"{launcher.rank} is {rank} and {name} is {size}: there is no such rank",
            f"ranks count from 0 to one less than {name}",
        )
    slurm = [environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    named = [environ[name] for name in launcher.job if environ.get(name, "none") != "none"]
    by, meeting = launcher.by, ""
    if by == "torchrun":
        master = (environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", ""))
        meeting = "-".join(master) if all(master) else ""
        by = by if "TORCHELASTIC_RUN_ID" in environ else "RANK and WORLD_SIZE"
    elif slurm[0]:
        meeting = ".".join(filter(None, slurm))
    return Place(
        rank,
        size,
        by,
        job_id=next(filter(None, named), meeting),
        local_rank=_number(environ, launcher.local_rank),
        node=_number(environ, launcher.node),
        restarts=_number(environ, launcher.restarts) or 0,
    )


def _number(environ: Mapping[str, str], name: str) -> int | None:
    """A variable's number, None where it is not set."""
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"-?[0-9]+", text):
        raise TrainperfError(
            f"{name} is {text!r}, which is not a number", f"correct {name}, or unset it"
        )
    return int(text)


def check_alone(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Refuse a torchrun over several hosts where nothing ties the trainperfs on them.

    Each would take its own host for the whole job, and try fixes on it alone.
    """
    at = after(command, TORCHRUN)
    if at is None:
        return
    nodes = (value(command, at, ("--nnodes",)) or environ.get("PET_NNODES", "1")).rpartition(":")[2]
    if nodes.isdigit() and int(nodes) > 1:
        raise TrainperfError(
            f"torchrun trains on {nodes} hosts here, and this trainperf would see one of them",
            "start one for each rank: torchrun … --no-python trainperf diagnose --run-dir DIR …",
        )


def _tf_config(environ: Mapping[str, str]) -> Place | None:
    """A task of the cluster in `TF_CONFIG`."""
    text = environ.get("TF_CONFIG", "")
    if not text.strip():
        return None
    said = _read_json(text, "TF_CONFIG")
    cluster, task = said.get("cluster"), said.get("task")
    if not cluster:
        return None
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        raise TrainperfError("TF_CONFIG has no cluster with a task in it", TF_CONFIG_HINT)
    kind, index = str(task.get("type", "")), str(task.get("index"))
    counts = {name: len(cluster.get(name) or ()) for name in ("chief", "master", "worker")}
    if kind not in counts:
        raise TrainperfError(
            f"TF_CONFIG makes this {kind or 'no task'} of the cluster, which trains no model",
            "observe the workers; start this one without trainperf",
        )
    if not re.fullmatch("[0-9]+", index) or int(index) >= counts[kind]:
        raise TrainperfError(
            f"TF_CONFIG says {kind} {index}, but its cluster has {counts[kind]} of them",
            TF_CONFIG_HINT,
        )
    size = sum(counts.values())
    before = size - counts["worker"] if kind == "worker" else 0
    return Place(before + int(index), size, "TF_CONFIG", _digest(cluster))


def _sagemaker(environ: Mapping[str, str], config: Path) -> Place | None:
    """One host of a SageMaker training job."""
    file = config / RESOURCES
    try:
        said = _read_json(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError):
        return None
    hosts, current = sorted(map(str, said.get("hosts") or ())), str(said.get("current_host", ""))
    if current not in hosts:
        raise TrainperfError(
            f"{file} does not list this host, {current!r}, among its hosts",
            f"its hosts are {', '.join(hosts) or 'none'}",
        )
    job = environ.get("TRAINING_JOB_NAME") or _digest(hosts)
    rank = hosts.index(current)
    return Place(rank, len(hosts), "SageMaker", job, node=rank)


def _read_json(text: str, source: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise TrainperfError(f"{source} is not JSON: {error}", "correct it, or unset it") from None
    if not isinstance(said, dict):
        raise TrainperfError(f"{source} holds no object", "correct it, or unset it")
    return said


def _digest(value: object) -> str:
    """A name for a job that nobody named: the same wherever its hosts are the same."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
