"""A job that runs is read from /proc; the processes here are real, and only sleep."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from trainperf.errors import TrainperfError
from trainperf.run import running

pytestmark = pytest.mark.usefixtures("mark")

WAITS = "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n"
WORKS = """
import multiprocessing, os, sys, time

def work(pid):
    pid.put(os.getpid())
    time.sleep(100)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    pid = context.Queue()
    context.Process(target=work, args=(pid,), daemon=True).start()
    print(pid.get(), flush=True)
    sys.stdin.read()
"""
LAUNCHES = """
import os, subprocess, sys
words = [sys.executable, "-u", sys.argv[3], *sys.argv[4:]]
ranks = [subprocess.Popen(words, env={**os.environ, "RANK": str(n), "WORLD_SIZE": "2"}, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
         for n in range(int(sys.argv[2]))]
for rank in ranks:
    rank.stdout.readline()
print(*(rank.pid for rank in ranks), flush=True)
sys.stdin.read()
"""


@contextmanager
def started(
    *command: str, cwd: Path, **variables: str
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process that has printed its first line, and the numbers in that."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, "PWD": str(cwd), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield process, [int(word) for word in line.split() if word.isdigit()]
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        # A tracker removes the semaphores of the others once they are gone, and ends.
        trackers = [one for one in below if any("resource_tracker" in x for x in one.cmdline())]
        for one in (*below, process):
            if one not in trackers:
                one.kill()
        process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(WAITS)
    (tmp_path / "work.py").write_text(WORKS)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text(WAITS)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "torchrun").write_text(LAUNCHES)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return tmp_path


def refused(pid: int) -> TrainperfError:
    with pytest.raises(TrainperfError) as caught:
        running.read(pid)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value


def test_a_script_is_found_with_its_arguments_its_folder_and_the_python_of_its_path(folder):
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    command = ("python", "-u", "train.py", "--lr", "1e-3")
    with started(*command, cwd=folder, PATH=path, ONLY_MINE="a secret") as (process, _):
        job = running.read(process.pid)
    assert job.command == (str(folder / "bin" / "python"), *command[1:])
    assert (job.cwd, job.label) == (str(folder), "train.py")
    assert (job.asked, job.pid) == (process.pid,) * 2
    assert job.script == str(folder / "train.py")
    assert job.environment["ONLY_MINE"] == "a secret"
    assert "a secret" not in repr(job)


def test_a_module_is_found_with_its_file(folder):
    with started(sys.executable, "-um", "pkg.train", "--epochs", "2", cwd=folder) as (process, _):
        job = running.read(process.pid)
    assert job.command == (sys.executable, "-um", "pkg.train", "--epochs", "2")
    assert (job.label, job.script) == ("-m pkg.train", str(folder / "pkg" / "train.py"))


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_of_a_worker_the_command_is_that_of_the_process_that_started_it(folder, how):
    with started(sys.executable, "work.py", how, cwd=folder) as (process, [worker]):
        job = running.read(worker)
    assert (job.asked, job.pid) == (worker, process.pid)
    assert job.command == (sys.executable, "work.py", how)


def test_of_a_rank_the_command_is_that_of_its_launcher(folder):
    words = (sys.executable, str(folder / "bin" / "torchrun"), "--nproc_per_node", "2", "train.py")
    with started(*words, cwd=folder) as (process, [_, second]):
        of_rank, of_launcher = running.read(second), running.read(process.pid)
    assert of_rank.command == of_launcher.command == words
    assert "RANK" not in of_rank.environment
    assert of_rank.label == "torchrun --nproc_per_node 2 train.py"
    assert of_rank.script == str(folder / "train.py")


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_started_one_rank_alone_is_not_taken_for_its_launcher(folder, ranks):
    (folder / "agent.py").write_text(LAUNCHES)
    words = (sys.executable, "agent.py", "--tasks", str(ranks), "train.py")
    with started(*words, cwd=folder) as (process, [first, *others]):
        assert running.read(first).pid == (process.pid if others else first)


def test_below_a_shell_the_pythons_are_named(folder):
    (folder / "run.sh").write_text(f"{sys.executable} train.py --lr 1; true\n")
    with started("bash", "run.sh", cwd=folder) as (process, _):
        [below] = psutil.Process(process.pid).children()
        error = refused(process.pid)
    assert f"process {process.pid} (bash) is not Python; below it: {below.pid} (" in str(error)
    assert "train.py --lr 1)" in str(error)
    assert error.hint == f"trainperf diagnose --pid {below.pid}"


def test_a_kernel_of_a_notebook_is_refused(folder):
    (folder / "ipykernel_launcher.py").write_text(WAITS)
    with started(sys.executable, "-m", "ipykernel_launcher", cwd=folder) as (process, _):
        assert "notebook's kernel" in str(refused(process.pid))


def test_a_process_that_is_not_there_or_has_ended_is_refused(folder):
    with subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert "there is no process" in str(refused(process.pid))  # a zombie yet
    assert f"there is no process {process.pid}" in str(refused(process.pid))


def test_a_process_of_another_user_is_refused(folder, monkeypatch):
    with started(sys.executable, "train.py", cwd=folder) as (process, _):
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert "belongs to" in str(refused(process.pid))


def test_a_process_that_sees_other_files_is_refused(folder):
    inside = ("unshare", "-rm", sys.executable, "train.py")
    if shutil.which("unshare") is None or subprocess.run(("unshare", "-rm", "true")).returncode:
        pytest.skip("no mount namespace can be made here")
    with started(*inside, cwd=folder) as (process, _):
        assert "sees other files" in str(refused(process.pid))


def test_a_deleted_folder_is_refused_and_so_is_a_deleted_script(folder, tmp_path_factory):
    gone = tmp_path_factory.mktemp("gone")
    with started(sys.executable, "-c", WAITS, cwd=gone) as (process, _):
        gone.rmdir()
        assert "no longer" in str(refused(process.pid))
    with started(sys.executable, "train.py", cwd=folder) as (process, _):
        (folder / "train.py").unlink()
        assert "no longer" in str(refused(process.pid))


def test_a_job_that_has_moved_to_another_folder_is_run_where_it_was_started(folder):
    (folder / "moves.py").write_text(f"import os\nos.chdir('pkg')\n{WAITS}")
    with started(sys.executable, "moves.py", cwd=folder) as (process, _):
        assert running.read(process.pid).cwd == str(folder)
