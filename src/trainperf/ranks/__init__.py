"""Which rank of a job this process is, from what its launcher put into the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainperf.errors import TrainperfError
from trainperf.ranks._values import Place
from trainperf.ranks.clusters import RESOURCES, sagemaker, tf_config
from trainperf.ranks.ranks import open_mpi, pmi, slurm, torchrun
from trainperf.run.launchers import TORCHRUN, after, value

SAGEMAKER_CONFIG = "/opt/ml/input/config"


def find(environ: Mapping[str, str], sagemaker_dir: str | Path = SAGEMAKER_CONFIG) -> Place | None:
    """Return the place of this process; None where it is not one of several.

    torchrun's variables go first, then those of Open MPI, of MPICH's and Intel's
    mpirun, of srun, then `TF_CONFIG` and SageMaker's: a launcher that was started by
    another one knows the ranks. Raises `TrainperfError` where what they say cannot be.
    """
    readers: tuple[Callable[[], Place | None], ...] = (
        lambda: torchrun(environ),
        lambda: open_mpi(environ),
        lambda: pmi(environ),
        lambda: slurm(environ),
        lambda: tf_config(environ),
        lambda: sagemaker(environ, Path(sagemaker_dir)),
    )
    for read in readers:
        found = read()
        if found is not None:
            return found if found.world_size > 1 else None
    return None


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


__all__ = ["RESOURCES", "Place", "check_alone", "find"]
