import re

import pytest

from trainperf.model import Run
from trainperf.trial.legs.ports import FIXED, UNSEEN, shared_port, with_own_port

ENV = "import os\nos.environ.setdefault('MASTER_PORT', '29500')\n"


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    monkeypatch.delenv("MASTER_PORT", raising=False)


def run(words, folder="/nowhere", **env):
    return Run(tuple(words.split()), str(folder), "train.py", env=env)


@pytest.mark.parametrize(
    "words",
    [
        "torchrun --standalone --nproc_per_node 2 train.py",
        "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nproc-per-node 2 train.py",
        "/opt/bin/torchrun --nproc_per_node=2 --rdzv_endpoint localhost:0 train.py",
    ],
)
def test_a_launcher_that_takes_a_free_port_is_left_alone(words):
    assert with_own_port(run(words)) == run(words)


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("torchrun --master_port 29500 train.py", r"torchrun --master_port \d+ train.py"),
        ("torchrun --master-port=29500 train.py", r"torchrun --master-port=\d+ train.py"),
        (
            "python -m torch.distributed.run --rdzv_endpoint here:29400 train.py",
            r"python -m torch.distributed.run --rdzv_endpoint here:\d+ train.py",
        ),
        (
            "torchrun --rdzv-backend c10d --rdzv-endpoint=localhost train.py",
            r"torchrun --rdzv-backend c10d --rdzv-endpoint=localhost:\d+ train.py",
        ),
        (
            "torchrun --rdzv-backend c10d train.py",
            r"torchrun --rdzv-endpoint=localhost:\d+ --rdzv-backend c10d train.py",
        ),
        (
            "torchrun --nproc_per_node 2 train.py",
            r"torchrun --standalone --nproc_per_node 2 train.py",
        ),
    ],
)
def test_another_port_is_written_where_one_is_named(words, changed):
    one, other = (" ".join(with_own_port(run(words)).command) for _ in range(2))
    assert re.fullmatch(changed, one)
    assert "29500" not in one
    assert "29400" not in one
    assert other == one or re.fullmatch(changed, other)


def test_ranks_that_take_the_port_from_the_environment_are_given_another():
    made = with_own_port(run("python train.py", MASTER_PORT="29500", OTHER="1"))
    assert made.command == ("python", "train.py")
    assert made.env["OTHER"] == "1"
    assert made.env["MASTER_PORT"] not in ("29500", "")


@pytest.mark.parametrize(
    ("words", "launcher", "source"),
    [
        ("torchrun --nproc_per_node 2 train.py", "torchrun", "print()"),
        ("torchrun --nproc_per_node 2 train.py", "torchrun", "os.environ['MASTER_PORT'] = '1'"),
        ("torchrun --rdzv_backend static --master_port 1 train.py", "torchrun", "print()"),
        ("python train.py", "multiprocessing", ENV),
        ("python train.py", "multiprocessing", "if 'MASTER_PORT' not in os.environ: ..."),
        ("python train.py", "multiprocessing", "port = int(os.environ['MASTER_PORT'])"),
    ],
)
def test_two_copies_with_ports_of_their_own_can_be_alive_together(
    tmp_path, words, launcher, source
):
    (tmp_path / "train.py").write_text(source)
    assert shared_port(run(words, tmp_path), launcher) == ""


@pytest.mark.parametrize(
    ("words", "launcher", "source", "reason"),
    [
        (
            "python train.py",
            "multiprocessing",
            "os.environ['MASTER_PORT'] = '12355'",
            FIXED.format("the script"),
        ),
        (
            "torchrun --standalone train.py",
            "torchrun",
            "init('gloo', init_method='tcp://localhost:1234')",
            FIXED.format("the script"),
        ),
        ("python train.py", "multiprocessing", "print()", UNSEEN),
        ("bash run.sh", "torchrun", "", UNSEEN),
        ("bash run.sh", "TF_CONFIG", "", FIXED.format("TF_CONFIG")),
        ("torchrun --rdzv_backend etcd-v2 train.py", "torchrun", "", "the same etcd-v2 server"),
    ],
)
def test_two_copies_that_would_meet_each_other_are_told(tmp_path, words, launcher, source, reason):
    (tmp_path / "train.py").write_text(source)
    assert reason in shared_port(run(words, tmp_path), launcher)


def test_a_port_of_the_environment_can_be_another(monkeypatch):
    assert shared_port(run("bash run.sh"), "mpirun") == UNSEEN
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert shared_port(run("bash run.sh"), "mpirun") == ""
