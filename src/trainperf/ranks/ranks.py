"""Launchers that say of each process which rank it is."""

from __future__ import annotations

from collections.abc import Mapping

from trainperf.ranks._values import Place, checked, number

_NO_RUN_ID = ("", "none")
"""`TORCHELASTIC_RUN_ID` of a job that nobody named."""
_FIRST_OF_SLURMS_OWN = 0xFFFFFFF0
"""Slurm gives the steps of batch scripts and of shells numbers from here on: no ranks."""


def torchrun(environ: Mapping[str, str]) -> Place | None:
    """torchrun's, or `RANK` and `WORLD_SIZE` as set by hand."""
    if not environ.get("RANK"):
        return None  # WORLD_SIZE alone is often exported for a launcher that comes later
    by = "torchrun" if "TORCHELASTIC_RUN_ID" in environ else "RANK and WORLD_SIZE"
    named = environ.get("TORCHELASTIC_RUN_ID", "")
    master = (environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", ""))
    unnamed = "-".join(master) if all(master) else ""
    return checked(
        environ,
        by,
        ("RANK", "WORLD_SIZE"),
        job_id=unnamed if named in _NO_RUN_ID else named,
        local_rank=number(environ, "LOCAL_RANK"),
        local_world_size=number(environ, "LOCAL_WORLD_SIZE"),
        node=number(environ, "GROUP_RANK"),
        restarts=number(environ, "TORCHELASTIC_RESTART_COUNT") or 0,
    )


def open_mpi(environ: Mapping[str, str]) -> Place | None:
    """Open MPI's mpirun."""
    if not environ.get("OMPI_COMM_WORLD_RANK"):
        return None
    names = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
    return checked(
        environ,
        "mpirun",
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        job_id=next((environ[name] for name in names if environ.get(name)), _slurm_id(environ)),
        local_rank=number(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_world_size=number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
    )


def pmi(environ: Mapping[str, str]) -> Place | None:
    """The mpirun of MPICH and Intel MPI."""
    if not environ.get("PMI_RANK"):
        return None
    if environ["PMI_RANK"] == environ.get("SLURM_PROCID") and _in_a_step(environ):
        return slurm(environ)  # srun --mpi=pmi2 sets both, and says more in its own
    return checked(
        environ,
        "mpirun",
        ("PMI_RANK", "PMI_SIZE"),
        job_id=_slurm_id(environ),
        local_rank=number(environ, "MPI_LOCALRANKID"),
        local_world_size=number(environ, "MPI_LOCALNRANKS"),
    )


def slurm(environ: Mapping[str, str]) -> Place | None:
    """srun's, within a step."""
    if not _in_a_step(environ):
        return None
    size = "SLURM_STEP_NUM_TASKS" if environ.get("SLURM_STEP_NUM_TASKS") else "SLURM_NTASKS"
    return checked(
        environ,
        "srun",
        ("SLURM_PROCID", size),
        job_id=_slurm_id(environ),
        local_rank=number(environ, "SLURM_LOCALID"),
        node=number(environ, "SLURM_NODEID"),
        restarts=number(environ, "SLURM_RESTART_COUNT") or 0,
    )


def _in_a_step(environ: Mapping[str, str]) -> bool:
    """Whether srun started this: a batch script has the variables too, and is no rank."""
    if not environ.get("SLURM_PROCID"):
        return False
    step = number(environ, "SLURM_STEP_ID")
    return step is not None and step < _FIRST_OF_SLURMS_OWN


def _slurm_id(environ: Mapping[str, str]) -> str:
    parts = [environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    return ".".join(part for part in parts if part) if parts[0] else ""
