"""A run ends with its control group, also where trainperf and its guard were killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kit.processes import (
    HIDES,
    diagnose,
    ended,
    kill_sleeping,
    observed,
    python,
    script,
    sleeping,
    started,
    strays,
    unique,
    wait_for,
)
from trainperf.run import groups
from trainperf.run.groups import began, machine
from trainperf.run.stopping import GUARD, LOOK_S
from trainperf.run.sweeping import sweep
from trainperf.samplers.levels import Level

pytestmark = pytest.mark.usefixtures("nothing_left")
needs_groups = pytest.mark.skipif(
    not groups.may_be_made(), reason="no control group may be made here"
)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    made = groups.make(str(tmp_path / "run.json"))
    assert made is not None
    yield made
    groups.end(made)


def own_groups() -> list[Path]:
    """The groups of runs of this process."""
    above = groups.above()
    assert above is not None
    return list(above.glob(f"trainperf-*-{os.getpid()}-*"))


def inside(group: Path, *command: str) -> None:
    """Start a command in a group, of a session of its own and without an environment."""
    subprocess.run(
        ("setsid", "-f", *command), env={}, check=True, preexec_fn=lambda: groups.enter(group)
    )


@needs_groups
def test_a_run_has_a_group_of_its_own_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    script(tmp_path, "print(open('/proc/self/cgroup').read())", "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run")
    above = groups.above()
    assert "/trainperf-" in recording.output_tail
    assert "trainperf-" not in Path("/proc/self/cgroup").read_text()
    assert above == groups.above()
    assert own_groups() == []


@needs_groups
def test_no_group_is_left_of_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("#!/no/such/interpreter\n")
    (tmp_path / "train").chmod(0o755)
    with pytest.raises(Exception, match="cannot start"):
        observed((str(tmp_path / "train"),), tmp_path, tmp_path / "run")
    assert own_groups() == []


@needs_groups
@pytest.mark.parametrize("kernel", ["has cgroup.kill", "has none"])
def test_whoever_is_in_a_group_ends_with_it(
    group: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "has none":
        monkeypatch.setattr(groups, "_KILL", "cgroup.unknown")
    below = group / "below"
    below.mkdir()
    seconds = unique()
    inside(group, "sleep", seconds)
    inside(below, "sleep", seconds)
    inside(group, sys.executable, "-c", "import os\nwhile True: os.fork() and os._exit(0)")
    assert len(groups.members(group)) >= 3
    groups.end(group)
    assert not group.exists()
    assert not sleeping(seconds)


@pytest.mark.alone  # whatever else is started would remove the one that is over
@needs_groups
def test_only_those_groups_are_left_whose_trainperf_is_gone(group: Path) -> None:
    above, name = group.parent, group.name
    digest, space, pid, ticks = name.removeprefix("trainperf-").split("-")
    over = f"trainperf-{digest}-{space}-{pid}-{int(ticks) - 1}"
    others = {
        "goes on": (name, False),
        "over": (over, True),
        "of another namespace": (f"trainperf-{digest}-1-{pid}-{int(ticks) - 1}", False),
        "another's": (f"trainperf-test-{os.getpid()}", False),
        "of a number that is none": (f"trainperf-{digest}-{space}-{10**30}-1", False),
    }
    made = [above / one for one, _ in others.values() if one != name]
    for one in made:
        one.mkdir()
    try:
        assert {what: groups.is_left(above / one) for what, (one, _) in others.items()} == {
            what: left for what, (_, left) in others.items()
        }
        assert above / over in list(groups.left())
        assert group not in list(groups.left())
    finally:
        for one in made:
            one.rmdir()


@needs_groups
def test_the_group_that_a_damaged_file_names_is_left_alone(group: Path, tmp_path: Path) -> None:
    run_file = str(tmp_path / "run.json")
    assert groups.is_of(group, run_file)
    assert not groups.is_of(group, str(tmp_path / "other.json"))
    assert not groups.is_of(group.parent, run_file)
    assert not groups.is_of(tmp_path / group.name, run_file)
    assert not groups.is_of(group.parent / "x" / ".." / group.name, run_file)


@pytest.mark.parametrize(
    ("limits", "made"),
    [
        ({}, True),
        ({"cpu.max": "max 100000", "memory.max": "max"}, True),
        ({"cpu.max": "150000 100000"}, False),
        ({"memory.max": "1073741824"}, False),
    ],
    ids=["no limits", "none set", "of cores", "of memory"],
)
def test_a_script_finds_the_limits_of_its_own_group_where_they_are(
    tmp_path: Path, limits: dict[str, str], made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    for name, value in limits.items():
        (tmp_path / name).write_text(f"{value}\n")
    monkeypatch.setattr(groups, "levels", lambda root, controller: iter([Level(tmp_path, 2)]))
    assert groups.above() == (tmp_path if made else None)


@pytest.mark.parametrize(
    "found",
    [[], [("1", 1)], [("1\n", 2)], [("", 2)], [("unreadable", 2)]],
    ids=["none", "only version 1", "others'", "empty", "threads only"],
)
def test_where_our_own_group_is_not_seen_none_is_made(
    tmp_path: Path, found: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, _ in found:
        if text != "unreadable":
            (tmp_path / "cgroup.procs").write_text(text)
    seen = [Level(tmp_path, version) for _, version in found]
    monkeypatch.setattr(groups, "levels", lambda root, controller: iter(seen))
    assert groups.above() is None
    assert groups.make("run.json") is None
    assert groups.of("run.json") is None
    assert list(groups.left()) == []
    assert not groups.may_be_made()


def test_a_run_without_a_group_is_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "above", lambda: None)
    script(tmp_path, "print('the end')", "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run")
    assert recording.output_tail == "the end\n"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["group"] == ""


def test_a_group_that_refuses_a_run_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "make", lambda run_file: tmp_path / "none")
    script(tmp_path, "print('the end')", "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run")
    assert recording.output_tail == "the end\n"


@pytest.mark.alone
@needs_groups
def test_the_next_start_removes_the_group_that_a_run_names_elsewhere(
    group: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a login whose group of its own is closed: ours is another one then."""
    seconds = unique()
    run = tmp_path / "runs" / "a run"
    run.mkdir(parents=True)
    file = run / "run.json"
    digest, space, pid, ticks = groups.make(str(file)).name.removeprefix("trainperf-").split("-")  # type: ignore[union-attr]
    (group.parent / f"trainperf-{digest}-{space}-{pid}-{ticks}").rmdir()
    over = group.parent / f"trainperf-{digest}-{space}-{pid}-{int(ticks) - 1}"
    over.mkdir()
    inside(over, "sleep", seconds)
    settings = {"parent": os.getpid(), "parent_ticks": began(os.getpid()) - 1}  # type: ignore[operator]
    file.write_text(json.dumps({**settings, "machine": machine(), "group": str(over)}))
    monkeypatch.setattr(groups, "above", lambda: None)
    try:
        assert sweep(tmp_path / "runs").processes == 1
        assert not over.exists()
        assert not sleeping(seconds)
    finally:
        groups.end(over)


def guards(mark: str) -> list[psutil.Process]:
    return [one for one in strays(mark) if GUARD in one.environ()]


@pytest.mark.alone
@needs_groups
@pytest.mark.parametrize("killed", ["trainperf", "trainperf and its guard"])
def test_a_daemon_that_hides_ends_where_trainperf_is_killed(
    tmp_path: Path, mark: str, killed: str
) -> None:
    seconds = unique()
    script(tmp_path, HIDES.format(seconds=seconds, then="time.sleep(1000)"), "train.py")
    process = started(tmp_path, "train.py")
    try:
        wait_for(tmp_path, "ready")
        both = killed != "trainperf"
        for one in guards(mark) if both else ():
            one.kill()
        process.kill()
        process.communicate()
        if both:
            assert sleeping(seconds)  # nobody is there to end it
            script(tmp_path, "raise SystemExit('the end')", "next.py")
            assert "had left, which was killed" in diagnose(tmp_path, "next.py").stderr
        assert ended(seconds)
    finally:
        kill_sleeping(seconds)


@pytest.mark.alone
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="hides a mount")
def test_the_guard_remembers_daemons_where_no_group_may_be_made(tmp_path: Path, mark: str) -> None:
    seconds = unique()
    script(tmp_path, HIDES.format(seconds=seconds, then="time.sleep(1000)"), "train.py")
    command = (sys.executable, "-m", "trainperf", "diagnose", "--no-trials", "--output-dir", "runs")
    hidden = 'mount -t tmpfs tmpfs /sys/fs/cgroup && exec "$@"'
    process = subprocess.Popen(
        ("unshare", "--mount", "sh", "-c", hidden, "sh", *command, "train.py"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(tmp_path, "ready")
        (run_file,) = tmp_path.glob("runs/*/run.json")
        assert json.loads(run_file.read_text())["group"] == ""
        time.sleep(3 * LOOK_S)  # until the guard has looked
        process.kill()
        process.wait()
        assert ended(seconds)
    finally:
        kill_sleeping(seconds)
