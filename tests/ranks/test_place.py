"""Which rank a process is, by what each launcher puts into the environment."""

import json

import pytest

from trainperf import ranks
from trainperf.errors import TrainperfError
from trainperf.ranks import Place

NOWHERE = "/no/such/folder"
TORCHRUN = {
    "RANK": "9",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "host0",
    "MASTER_PORT": "29400",
    "TORCHELASTIC_RUN_ID": "mine",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_JOB_ID": "811",
    "SLURM_STEP_ID": "0",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-a-1@1",
}
WORKERS = {"worker": ["a:1", "b:1"]}
CHIEF = {"chief": ["c:1"], "worker": ["a:1", "b:1"], "ps": ["p:1"]}


def found(environ, folder=NOWHERE):
    return ranks.find(environ, folder)


def tf_config(cluster, kind, index):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def sagemaker(folder, current, *hosts):
    said = {"current_host": current, "hosts": list(hosts), "network_interface_name": "eth0"}
    (folder / ranks.RESOURCES).write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WORLD_SIZE": "4", "MASTER_ADDR": "host0"},  # exported for a launcher that comes later
        {"RANK": "0", "WORLD_SIZE": "1"},
        {**SRUN, "SLURM_NTASKS": "1", "SLURM_PROCID": "0"},
        {name: value for name, value in SRUN.items() if name != "SLURM_STEP_ID"},  # a batch script
        {**SRUN, "SLURM_STEP_ID": str(0xFFFFFFFB)},  # the same, as newer versions number it
        {**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},  # a shell in an allocation
        {"SLURM_JOB_ID": "811", "SLURM_NTASKS": "4"},
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        {"TF_CONFIG": ""},
        {"TF_CONFIG": "{}"},
        tf_config({"worker": ["a:1"]}, "worker", 0),
    ],
    ids=str,
)
def test_a_process_alone_has_no_place(environ):
    assert found(environ) is None


BY_TORCHRUN = Place(9, 16, "torchrun", "mine", 1, 1, restarts=2)
BY_SRUN = Place(3, 4, "srun", "811.0", 1, node=1)
BY_MPIRUN = Place(2, 4, "mpirun", "prterun-a-1@1", 0)
DAEMONS = {**SRUN, "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
"""As `mpirun` starts them by `srun`."""


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (TORCHRUN, BY_TORCHRUN),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Place(1, 2, "RANK and WORLD_SIZE")),
        (SRUN, BY_SRUN),
        # the tasks of the step count and not those of the allocation
        ({**SRUN, "SLURM_NTASKS": "64", "SLURM_STEP_NUM_TASKS": "4"}, BY_SRUN),
        (OPEN_MPI, BY_MPIRUN),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Place(1, 2, "mpirun")),
        # whoever started the others comes last
        ({**DAEMONS, **OPEN_MPI}, BY_MPIRUN),
        ({**DAEMONS, "PMI_RANK": "5", "PMI_SIZE": "8"}, Place(5, 8, "mpirun", "811.0")),
        ({**SRUN, "PMI_RANK": "3", "PMI_SIZE": "4"}, BY_SRUN),
        ({**SRUN, **TORCHRUN}, BY_TORCHRUN),
    ],
    ids=str,
)
def test_a_launcher_says_the_place(environ, place):
    assert found(environ) == place


@pytest.mark.parametrize("name", ["none", ""])
def test_a_job_that_nobody_named_goes_by_its_meeting_point(name):
    assert found({**TORCHRUN, "TORCHELASTIC_RUN_ID": name}).job_id == "host0-29400"


def test_tf_config_counts_the_chief_first():
    assert found(tf_config(WORKERS, "worker", 1)).rank == 1
    assert found(tf_config(CHIEF, "chief", 0)).rank == 0
    worker = found(tf_config(CHIEF, "worker", 1))
    assert (worker.rank, worker.world_size, worker.by) == (2, 3, "TF_CONFIG")


def test_sagemaker_counts_hosts(tmp_path):
    folder = sagemaker(tmp_path, "algo-2", "algo-2", "algo-1")
    own = found({"TRAINING_JOB_NAME": "rnn-7"}, folder)
    assert own == Place(1, 2, "SageMaker", "rnn-7", node=1)
    assert found({}, folder).job_id  # unnamed, but the same on all hosts
    assert found({}, sagemaker(tmp_path, "algo-1", "algo-1")) is None
    with pytest.raises(TrainperfError, match="does not list this host, 'c'"):
        found({}, sagemaker(tmp_path, "c", "algo-1", "algo-2"))


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"RANK": "1"}, "RANK is set, but not WORLD_SIZE"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK is 4 and WORLD_SIZE is 4"),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, "no such rank"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "no such rank"),
        ({"RANK": "one", "WORLD_SIZE": "4"}, "RANK is 'one', which is not a number"),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "x"}, "LOCAL_RANK is 'x'"),
        ({**SRUN, "SLURM_NTASKS": ""}, "SLURM_PROCID is set, but not SLURM_NTASKS"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK is 2"),
        ({"PMI_RANK": "1"}, "PMI_RANK is set, but not PMI_SIZE"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG is not JSON"),
        ({"TF_CONFIG": "[1]"}, "TF_CONFIG holds no object"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, "no cluster with a task"),
        (tf_config(WORKERS, "worker", 2), "worker 2, but its cluster has 2"),
        (tf_config(WORKERS, "worker", "b"), "worker b"),
        (tf_config(CHIEF, "ps", 0), "trains no model"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_the_variable_and_a_next_step(environ, text):
    with pytest.raises(TrainperfError) as caught:
        found(environ)
    assert text in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        ("torchrun --nnodes=1:1 train.py", {}),
        ("python train.py --nnodes 2", {}),
        ("torchrun --nproc_per_node 2 train.py --nnodes 2", {}),
        ("python train.py", {"PET_NNODES": "2"}),
    ],
)
def test_a_job_of_one_host_may_stand_behind_one_trainperf(command, environ):
    ranks.check_alone(command.split(), environ)


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        ("torchrun --nnodes 2 train.py", {}),
        ("/opt/bin/torchrun --nnodes=2 train.py", {}),
        ("python -m torch.distributed.run --nnodes 1:4 train.py", {}),
        ("torchrun --nproc_per_node 8 train.py", {"PET_NNODES": "2"}),
    ],
)
def test_a_job_of_several_hosts_may_not(command, environ):
    with pytest.raises(TrainperfError, match="would see one of them") as caught:
        ranks.check_alone(command.split(), environ)
    assert "--no-python" in caught.value.hint
