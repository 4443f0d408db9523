"""trainperf as an unprivileged user: folders and files are that user's alone, nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.harness import NOT_MEASURED, REFUSED, Place, ended
from kit.processes import LONG_S, gone, strays, unique
from kit.processes import ended as ended_sleeping
from trainperf.run.stopping import GUARD
from trainperf.run.sweeping import sweep

NOBODY = 65534
pytestmark = [
    pytest.mark.script,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("setpriv"), reason="becomes another user"
    ),
]


@pytest.fixture
def theirs(nothing_left: str) -> Iterator[Place]:
    """A folder of an unprivileged user's, who can come to it, and to the interpreter."""
    above = Path(tempfile.mkdtemp(dir="/tmp"))
    above.chmod(0o755)
    folders = [above / name for name in ("home", "runs", "tmp")]
    for folder in folders:
        folder.mkdir(mode=0o700)
        os.chown(folder, NOBODY, NOBODY)
    home, runs, temporary = folders
    place = Place(home, runs, temporary, nothing_left, before=unprivileged())
    place.env = {"HOME": str(home), "TMPDIR": str(temporary), "XDG_CACHE_HOME": ""}
    tried = place.start("--version")
    if ended(tried).status:
        pytest.skip("an unprivileged user cannot come to this interpreter")
    place.remember()
    yield place
    shutil.rmtree(above)


def unprivileged() -> tuple[str, ...]:
    """What makes a command one of an unprivileged user's, to whom the interpreter is open.

    Where it lies in a folder of root's alone, that one is another in a view of the command's own,
    with nothing in it but the interpreter.
    """
    prefix = Path(sys.base_prefix).resolve()
    closed = [one for one in (*reversed(prefix.parents),) if not one.stat().st_mode & 0o001]
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if not closed:
        return drop
    opens = (
        'set -e; kept=$(mktemp -d); mount --bind "$2" "$kept"; '
        'mount -t tmpfs -o mode=755 tmpfs "$1"; mkdir -p "$2"; mount --move "$kept" "$2"; '
        'rmdir "$kept"; shift 2; exec "$@"'
    )
    return ("unshare", "--mount", "sh", "-c", opens, "sh", str(closed[0]), str(prefix), *drop)


def owned(folder: Path) -> list[str]:
    """What of a folder is not the user's alone: another's, or open to others."""
    return [
        str(path)
        for path in (folder, *folder.rglob("*"))
        if path.lstat().st_uid != NOBODY
        or (path.is_dir() and path.parent == folder and stat.S_IMODE(path.stat().st_mode) & 0o077)
    ]


def as_theirs(place: Place, source: str) -> Place:
    place.with_script(source)
    os.chown(place.home / "train.py", NOBODY, NOBODY)
    place.remember()
    return place


SETTLES = "import os; print('I am', os.getuid()); open('written', 'w').close()"


def test_a_run_of_an_unprivileged_user_is_theirs_alone(theirs: Place) -> None:
    as_theirs(theirs, "import os; print('I am', os.getuid()); raise SystemExit(1)")
    result = theirs.diagnose("--no-trials")
    theirs.check(result, NOT_MEASURED, [f"I am {NOBODY}"])
    assert owned(theirs.runs) == []


@pytest.mark.parametrize("group", [NOBODY, 0], ids=["theirs", "another's"])
def test_what_cannot_be_guarded_is_said_and_what_is_stays(theirs: Place, group: int) -> None:
    as_theirs(theirs, SETTLES)
    os.chown(theirs.home, NOBODY, group)  # in a user namespace there is one group only
    theirs.remember()
    result = theirs.diagnose("--no-trials")
    guarded = f"{theirs.home} stays as it is" in result.stderr
    assert not (guarded and group != NOBODY)
    assert guarded or f"deletes in {theirs.home}, for real" in result.stderr
    assert guarded != (theirs.home / "written").exists()
    if not guarded:
        theirs.remember()
    theirs.check(result, result.status)


def test_runs_go_to_a_folder_of_their_own_where_there_is_no_cache(theirs: Place) -> None:
    as_theirs(theirs, "raise SystemExit(1)")
    os.chown(theirs.home, 0, 0)
    theirs.home.chmod(0o755)
    theirs.remember()
    result = ended(theirs.start("diagnose", "--no-trials", "train.py"))
    folder = theirs.temporary / f"trainperf-{NOBODY}"
    assert result.status == NOT_MEASURED, result.stderr
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert owned(folder) == []
    shutil.rmtree(folder)
    theirs.check(result, NOT_MEASURED, shown=False)


@pytest.mark.parametrize("made", ["by another", "open to all", "a link"])
def test_a_folder_that_was_made_for_them_is_refused(theirs: Place, made: str) -> None:
    as_theirs(theirs, "raise SystemExit('it ran')")
    os.chown(theirs.home, 0, 0)
    theirs.home.chmod(0o755)
    theirs.temporary.chmod(0o1777)
    folder = theirs.temporary / f"trainperf-{NOBODY}"
    if made == "a link":
        folder.symlink_to(theirs.runs)
    else:
        folder.mkdir()
        folder.chmod(0o777)
        os.chown(folder, *((0, 0) if made == "by another" else (NOBODY, NOBODY)))
    theirs.remember()
    result = ended(theirs.start("diagnose", "--no-trials", "train.py"))
    assert list(folder.iterdir()) == []
    folder.unlink() if folder.is_symlink() else folder.rmdir()
    theirs.check(result, REFUSED, ["is not a folder of yours alone"], shown=False)


@pytest.mark.alone  # any other run would end it first
@pytest.mark.parametrize("guard", ["lives", "is killed too"])
def test_what_was_killed_is_ended_by_the_next_start_of_that_user_only(
    theirs: Place, guard: str
) -> None:
    seconds, lives = unique(), guard == "lives"
    as_theirs(theirs, "import subprocess, time\n"
        f"subprocess.Popen(['sleep', '{seconds}'])\n"
        f"subprocess.Popen(['setsid', '-f', 'sleep', '{seconds}'])\n"
        "print('ready', flush=True)\ntime.sleep(1000)\n")  # fmt: skip
    theirs.sleeps = (seconds,)
    process = theirs.start("diagnose", "--no-trials", "--output-dir", str(theirs.runs), "train.py")
    _wait_for_output(theirs.runs, "ready")
    for one in strays(theirs.mark) if not lives else ():
        if GUARD in one.environ():
            one.kill()
    process.kill()
    process.communicate()
    if not lives:
        assert strays(theirs.mark)
        assert sweep(theirs.runs) == []  # root's is another's
        assert strays(theirs.mark)
        as_theirs(theirs, "raise SystemExit(1)")
        result = theirs.diagnose("--no-trials")
        assert "what an earlier run had left" in result.stderr
    assert gone(theirs.mark)
    assert ended_sleeping(seconds)
    theirs.check_nothing_left()


def _wait_for_output(runs: Path, text: str) -> None:
    for _ in range(int(LONG_S / 0.05)):
        if any(text in one.read_text() for one in runs.glob("*/output.log")):
            return
        signal.sigtimedwait([], 0.05)
    raise AssertionError(f"nothing said {text!r}")
