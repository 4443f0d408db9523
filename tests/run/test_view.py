"""A command in a copy-on-write view changes nothing of the user's, and cannot tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from kit.processes import LONG_S, gone, old, snapshot
from trainperf.run import guarding, view
from trainperf.run.view import remove

SOURCES = Path(view.__file__).parent


def works() -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "covered"
        folder.mkdir()
        return bool(guarding.probe([str(folder)], Path(name), []).folders)


needs_view = pytest.mark.skipif(not works(), reason="the kernel permits no view here")


def project(folder: Path) -> Path:
    """A project of a user's, with what runs of it have left."""
    for name in ("data", "logs/run1", "checkpoints", "runs"):
        (folder / name).mkdir(parents=True)
    (folder / "train.py").write_text("print('training')\n")
    (folder / "history.csv").write_text("epoch,loss\n0,1.0\n")
    (folder / "logs/run1/events").write_bytes(b"\0" * 100)
    (folder / "checkpoints/best.keras").write_bytes(b"best")
    (folder / "checkpoints/best.keras").chmod(0o640)
    (folder / "link").symlink_to("checkpoints")
    old(folder)
    return folder


SPOIL = """
import os, shutil
open("history.csv", "a").write("1,0.5\\n")
open("checkpoints/best.keras", "wb").write(b"worse")
shutil.rmtree("logs")
os.makedirs("logs/run2")
open("logs/run2/events", "wb").write(b"1")
open("train.py", "w").write("broken")
os.chmod("data", 0o700)
shutil.move("runs", "old_runs")
os.unlink("link")
os.utime("history.csv")
open(os.path.join("checkpoints", "new"), "w").close()
os.replace("checkpoints/new", "checkpoints/newer")
print(sorted(os.listdir(".")), sorted(os.listdir("logs")), os.listdir("checkpoints"))
print(open("history.csv").read(), open("checkpoints/best.keras").read())
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return project(tmp_path / "project")


def run(command: tuple[str, ...], cwd: Path, **more: object) -> subprocess.CompletedProcess[str]:
    settings = {"stdin": subprocess.DEVNULL, "timeout": 60, "text": True, **more}
    return subprocess.run(command, cwd=cwd, capture_output=True, **settings)  # type: ignore[call-overload]


def python(source: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(source), *arguments)


@needs_view
def test_whatever_the_command_writes_the_folder_stays_as_it_was(user, tmp_path):
    before = snapshot(user)
    command = view.enclosed(python(SPOIL), [str(user)], tmp_path / "scratch", [])
    first = run(command, user)
    assert snapshot(user) == before

    spoilt = run(python(SPOIL), user)  # for real, to show that it does spoil
    assert snapshot(user) != before
    assert (first.returncode, first.stdout, first.stderr) == (0, spoilt.stdout, spoilt.stderr)


@needs_view
@pytest.mark.parametrize("name", ["with space", "a,b", "a:b", "a\\b", "ä€", "a'b\"c", "line\nend"])
def test_names_of_folders_may_hold_any_character(tmp_path, name):
    folder = project(tmp_path / name)
    before = snapshot(tmp_path / name)
    scratch = tmp_path / f"scratch {name}"
    result = run(view.enclosed(python(SPOIL), [str(folder)], scratch, []), folder)
    assert result.returncode == 0, result.stderr
    assert snapshot(folder) == before


LOOK = """
import json, os, resource, signal, sys
status = open("/proc/self/status").read()
names = ("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh", "Umask")
print(json.dumps({
    "argv": sys.argv, "orig": sys.orig_argv, "executable": sys.executable,
    "environ": sorted(map(repr, os.environb.items())), "cwd": os.getcwd(),
    "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
    "status": [line for line in status.splitlines() if line.split(":")[0] in names],
    "fds": [os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in os.listdir("/proc/self/fd") if int(n) < 3],
    "more fds": len(os.listdir("/proc/self/fd")),
    "stdin": sys.stdin.read(),
    "limits": [resource.getrlimit(n) for n in range(16)],
    "nice": os.nice(0), "affinity": sorted(os.sched_getaffinity(0)),
    "leads": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
    "path": sys.path, "flags": str(sys.flags), "encoding": sys.stdout.encoding,
    "folder": [oct(os.stat(".").st_mode), os.stat(".").st_mtime_ns, os.stat(".").st_uid],
    "comm": open("/proc/self/comm").read(),
}, indent=1))
"""  # noqa: E501


@needs_view
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_command_cannot_tell_the_view_from_the_folder(user, tmp_path, locale):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "", "LANG": locale, "HOME": "/x", "odd": "a=b\n"}
    user.chmod(0o2751)
    command = python(LOOK, "--epochs", "3", "--", "-c", "ä")
    settings = {"env": env, "umask": 0o027, "start_new_session": True}
    scratch = tmp_path / "scratch"
    alone = run(command, user, stdin=None, input="typed", **settings)
    enclosed = view.enclosed(command, [str(user)], scratch, [])
    within = run(enclosed, user, stdin=None, input="typed", **settings)
    assert within.stdout == alone.stdout
    assert json.loads(within.stdout)["stdin"] == "typed"


@needs_view
def test_commands_are_found_as_without_the_view(user, tmp_path):
    (user / "tool.sh").write_text("#!/bin/sh\necho here $0 $1\n")
    (user / "tool.sh").chmod(0o755)
    for number, command in enumerate([("./tool.sh", "x"), ("tool.sh", "x"), ("echo", "y")]):
        env = {**os.environ, "PATH": f"/nonexistent:{user}:{os.environ['PATH']}"}
        enclosed = view.enclosed(command, [str(user)], tmp_path / f"scratch{number}", [])
        alone, within = run(command, user, env=env), run(enclosed, user, env=env)
        assert (within.stdout, within.returncode) == (alone.stdout, 0)


@needs_view
def test_a_view_that_cannot_be_made_starts_nothing(user, tmp_path):
    before = snapshot(user)
    command = python("open('train.py', 'w')")
    folders = [str(user), str(tmp_path / "missing")]
    result = run(view.enclosed(command, folders, tmp_path / "scratch", []), user)
    assert result.returncode == view.NO_VIEW
    assert result.stderr.startswith("trainperf: no copy-on-write view: ")
    assert snapshot(user) == before


@needs_view
def test_what_is_written_to_a_kept_folder_is_written_for_real(user, tmp_path):
    kept = user / "trainperf" / "run"
    kept.mkdir(parents=True)
    source = """
    import os
    open("trainperf/run/events", "w").write("step")
    open("trainperf/other", "w").write("gone")
    print(sorted(os.listdir("trainperf")))
    """
    scratch = kept / "view"  # inside what is kept, as in a run
    result = run(view.enclosed(python(source), [str(user)], scratch, [kept]), user)
    assert result.stdout == "['other', 'run']\n"
    assert (kept / "events").read_text() == "step"
    assert not (user / "trainperf/other").exists()


@needs_view
def test_children_see_the_same_view_and_it_ends_with_them(user, tmp_path):
    source = """
    import subprocess, sys
    open("new", "w").write("from the parent")
    print(subprocess.run(["cat", "new"], capture_output=True, text=True).stdout)
    """
    result = run(view.enclosed(python(source), [str(user)], tmp_path / "scratch", []), user)
    assert result.stdout == "from the parent\n"
    assert str(user) not in [point for point, _ in view.mounts()]


@needs_view
def test_the_scratch_folder_can_be_removed_whatever_is_in_it(user, tmp_path):
    scratch = tmp_path / "scratch"
    source = """
    import os, shutil
    os.mkdir("locked"); os.mkdir("locked/deep"); open("locked/deep/file", "w").close()
    os.chmod("locked/deep", 0); os.chmod("locked", 0)
    shutil.rmtree("logs")
    """
    assert run(view.enclosed(python(source), [str(user)], scratch, []), user).returncode == 0
    assert scratch.exists()
    remove(scratch)
    assert not scratch.exists()
    remove(scratch)  # not there: nothing to do


@needs_view
def test_the_command_dies_with_its_parent_if_that_was_asked_for(user, tmp_path, mark):
    inner = view.enclosed(("sleep", "60"), [str(user)], tmp_path / "scratch", [])
    source = f"""
    import ctypes, os, subprocess, time
    libc = ctypes.CDLL(None)
    subprocess.Popen({list(inner)!r}, preexec_fn=lambda: libc.prctl(1, 9), start_new_session=True)
    time.sleep(1)
    os.kill(os.getpid(), 9)
    """
    run(python(source), user)
    assert gone(mark, LONG_S / 2)  # it sleeps for a minute


@needs_view
def test_the_probe_says_what_it_covers_and_leaves_no_trace(user, tmp_path):
    keep = tmp_path / "run"
    keep.mkdir()
    before = snapshot(user)
    found = guarding.probe([str(user)], keep, [keep])
    assert found == guarding.View((str(user),), ())
    assert snapshot(user) == before
    assert list(keep.iterdir()) == []


@needs_view
def test_links_out_of_a_covered_folder_are_named(user, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (user / "outputs").symlink_to(tmp_path / "elsewhere")
    found = guarding.probe([str(user)], tmp_path / "run", [])
    assert found.unguarded == (f"{user}/outputs: it leads to {tmp_path}/elsewhere",)


def test_where_the_kernel_forbids_a_view_that_is_said(user, tmp_path, monkeypatch):
    refusing = tmp_path / "view.py"
    text = (SOURCES / "view.py").read_text()
    body = "raise PermissionError(1, 'Operation not permitted', 'unshare')"
    refusing.write_text(text.replace("    libc = _Libc()\n", f"    {body}\n"))
    monkeypatch.setattr(view, "__file__", str(refusing))
    found = guarding.probe([str(user)], tmp_path / "run", [])
    what = f"what the script itself writes or deletes in {user}, for real"
    why = "no copy-on-write view is permitted here (unshare: Operation not permitted)"
    assert found.folders == ()
    assert found.unguarded == (f"{what}: {why}, as in most containers",)


@needs_view
def test_one_folder_that_cannot_be_covered_does_not_uncover_the_others(user, tmp_path):
    missing = str(tmp_path / "missing")
    found = guarding.probe([str(user), missing], tmp_path / "run", [])
    assert found.folders == (str(user),)
    assert len(found.unguarded) == 1
    assert missing in found.unguarded[0]


def test_the_project_around_the_script_is_covered(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home/project/.git", "home/project/src/jobs", "home/plain/src", "home/.cache"):
        (tmp_path / name).mkdir(parents=True)
    home = tmp_path / "home"
    jobs, plain = home / "project/src/jobs", home / "plain"
    assert guarding.folders_of(jobs, "train.py") == (str(home / "project"),)
    assert guarding.folders_of(plain, "src/train.py") == (str(plain),)
    assert guarding.folders_of(plain / "src", "../train.py") == (str(plain),)
    assert guarding.folders_of(plain, jobs / "train.py") == (str(plain), str(home / "project"))
    assert guarding.folders_of(home, "train.py") == (str(home),)
    assert guarding.folders_of(plain, None) == (str(plain),)


@pytest.mark.parametrize("folder", ["/", "/tmp", "/usr", "/home", "/var/tmp"])
def test_folders_that_a_machine_shares_are_never_covered(folder):
    assert guarding.folders_of(folder, "train.py") == ()


@needs_view
def test_the_hidden_folders_of_a_home_stay_real(tmp_path, monkeypatch):
    home = project(tmp_path / "home")
    (home / ".keras/datasets").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    source = """
    open(".keras/datasets/mnist", "w").write("fetched")
    open("history.csv", "w").write("lost")
    """
    found = guarding.probe([str(home)], tmp_path / "run", [])
    assert found.folders == (str(home),)
    assert found.unguarded == (f"the hidden folders in {home}",)
    run(view.enclosed(python(source), [str(home)], tmp_path / "scratch", []), home)
    assert (home / ".keras/datasets/mnist").read_text() == "fetched"
    assert "lost" not in (home / "history.csv").read_text()


def test_trackers_are_offline_and_what_was_off_stays_off(tmp_path):
    variables = guarding.tracker_environment(tmp_path, {"WANDB_MODE": "disabled"})
    assert "WANDB_MODE" not in variables
    assert variables["NEPTUNE_MODE"] == "offline"
    assert variables["WANDB_DIR"] == str(tmp_path)
    assert guarding.tracker_environment(tmp_path, {"WANDB_MODE": "online"})["WANDB_MODE"] == (
        "offline"
    )


@needs_view
def test_files_are_laid_into_the_view_and_nowhere_else(tmp_path: Path) -> None:
    user = project(tmp_path / "project")
    before = snapshot(user)
    (tmp_path / "kept").write_text("other\n")
    files = {
        str(user / "history.csv"): str(tmp_path / "kept"),
        str(user / "new/module.py"): str(tmp_path / "kept"),
        str(user / "train.py"): None,
    }
    looks = (
        "import os; "
        "print(open('history.csv').read(), os.listdir('new'), os.path.exists('train.py'))"
    )
    words = (sys.executable, "-c", looks)
    command = view.enclosed(words, [str(user)], tmp_path / "scratch", [], files)
    assert run(command, user).stdout == "other\n ['module.py'] False\n"
    assert snapshot(user) == before


@needs_view
def test_a_file_outside_the_view_is_not_written(tmp_path: Path) -> None:
    user, outside = project(tmp_path / "project"), tmp_path / "outside.py"
    (tmp_path / "kept").write_text("other\n")
    files = {str(outside): str(tmp_path / "kept")}
    words = (sys.executable, "-c", "print('ran')")
    done = run(view.enclosed(words, [str(user)], tmp_path / "scratch", [], files), user)
    assert (done.returncode, done.stdout) == (view.NO_VIEW, "")
    assert "is not in the view" in done.stderr
    assert not outside.exists()
