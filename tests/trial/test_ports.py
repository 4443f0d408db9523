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
    ["--nproc_per_node 2", "--master_port 29500", "--rdzv-backend c10d --rdzv_endpoint here:29400"],
)
def test_torchrun_takes_a_free_port_whatever_else_it_is_told(words):
    (launcher, first, *others) = with_own_port(run(f"torchrun {words} train.py")).command
    assert (launcher, first, others) == ("torchrun", "--standalone", [*words.split(), "train.py"])
    alone = run(f"/opt/bin/torchrun {words} --standalone train.py")
    assert with_own_port(alone) == alone


@pytest.mark.parametrize("given", ["", " --main_process_port=29500", " --main-process-port 29500"])
def test_accelerate_is_given_another_port(given):
    words = with_own_port(run(f"accelerate launch{given} train.py")).command
    assert re.fullmatch(
        r"accelerate launch --main[_-]process[_-]port[= ]\d+ train.py", " ".join(words)
    )
    assert "29500" not in " ".join(words)


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
        ("torchrun --rdzv_backend etcd-v2 train.py", "torchrun", "print()"),
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
    ],
)
def test_two_copies_that_would_meet_each_other_are_told(tmp_path, words, launcher, source, reason):
    (tmp_path / "train.py").write_text(source)
    assert reason in shared_port(run(words, tmp_path), launcher)


def test_a_port_of_the_environment_can_be_another(monkeypatch):
    assert shared_port(run("bash run.sh"), "mpirun") == UNSEEN
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert shared_port(run("bash run.sh"), "mpirun") == ""
