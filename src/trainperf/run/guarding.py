"""The user's files that are guarded while their script runs, and those that cannot be.

Decided and tried out before the first run, so that it can be said before it.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainperf.run import view

PROBE_S = 20.0
SCAN_S, SCAN_ENTRIES = 0.1, 10_000
"""How much of a folder is looked through before it is covered."""
SAID = 3
"""How many of the links that lead out of a folder are named."""

_SHARED = (  # noqa: SIM905
    "/ /bin /boot /dev /dev/shm /etc /home /lib /lib64 /media /mnt /mnt/data /opt /proc "
    "/run /sbin /srv /sys /tmp /usr /usr/bin /usr/lib /usr/local /var /var/tmp"
).split()
"""Folders that a machine's programs share: sockets and locks in them must stay real."""

_WRITE_TEST = """
import os, sys
mark, count, *words = sys.argv[1:]
for path, device in zip(words[: int(count)], words[int(count) : 2 * int(count)]):
    if os.stat(path).st_dev == int(device):
        sys.exit(f"{path} is not covered")
    open(os.path.join(path, mark), "x").close()
for path in words[2 * int(count) :]:
    open(os.path.join(path, mark), "x").close()
"""


@dataclass(frozen=True)
class View:
    """Which folders a run sees copy-on-write, and in plain words what it may change."""

    folders: tuple[str, ...]
    unguarded: tuple[str, ...]


def folders_of(cwd: str | Path, script: str | Path | None) -> tuple[str, ...]:
    """Return the folders of the user's to cover, real paths, none inside another.

    They are the working directory and the folder of the script, each widened to the
    git work tree it belongs to: outputs of a project mostly stay in it. Folders that
    a whole machine shares (`/`, `/tmp`, …) are left out. The home folder is taken only
    if it is itself the working directory or the script's folder, and its hidden
    folders (caches, settings) stay real even then.
    """
    starts = [os.path.realpath(cwd)]
    if script is not None:
        path = os.path.realpath(os.path.join(cwd, script))
        starts.append(path if os.path.isdir(path) else os.path.dirname(path))
    shared = {*_SHARED, os.path.realpath(tempfile.gettempdir())}
    found = {_project(start) for start in starts} - shared
    home = os.path.realpath(os.path.expanduser("~"))
    found = {path for path in found if os.path.isdir(path) and not _inside(home, path)} | {
        home for path in found if path == home
    }
    return tuple(
        sorted(one for one in found if not any(_inside(one, other) for other in found - {one}))
    )


def _project(folder: str) -> str:
    """The git work tree around `folder`, or `folder`; never home, nor what is above it."""
    home = os.path.realpath(os.path.expanduser("~"))
    at = folder
    while at != os.path.dirname(at):
        if at == home or _inside(home, at):
            return folder
        if os.path.exists(os.path.join(at, ".git")):
            return at
        at = os.path.dirname(at)
    return folder


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def probe(folders: Sequence[str], scratch: Path, keep: Sequence[Path]) -> View:
    """Try a copy-on-write view of `folders` out; return those that it really covers.

    `scratch` and `keep` are what the runs will have, or like it. Nothing in the folders
    is changed. Takes some 0.1 s. Never raises: what does not work is a reason in
    `View.unguarded`.
    """
    refused = {path: reason for path in folders if (reason := _refused(path))}
    open_ = [path for path in folders if path not in refused]
    error = _try(open_, scratch, keep)
    if error and len(open_) > 1:
        alone = {path: _try([path], scratch, keep) for path in open_}
        refused |= {path: reason for path, reason in alone.items() if reason}
        open_ = [path for path in open_ if not alone[path]]
        error = _try(open_, scratch, keep)
    if error:
        refused |= dict.fromkeys(open_, error)
        open_ = []
    what = "what the script itself writes or deletes in {}, for real: {}"
    uncovered = (what.format(path, reason) for path, reason in refused.items())
    ways_out = (text for path in open_ for text in _ways_out(path, open_))
    return View(tuple(open_), (*uncovered, *ways_out))


def _ways_out(folder: str, covered: Sequence[str]) -> Iterator[str]:
    """Name what lies in the covered `folder` but is not covered."""
    for path in view.submounts(folder):
        yield f"{path}: another file system is mounted there"
    if view.hidden_folders(folder):
        yield f"the hidden folders in {folder}"
    links = 0
    for entry in _entries(folder):
        if not entry.is_symlink() or links == SAID:
            continue
        target = os.path.realpath(entry.path)
        out = not any(_inside(target, other) for other in covered)
        if out and os.path.isdir(target) and os.access(target, os.W_OK):
            links += 1
            yield f"{entry.path}: it leads to {target}"


def _refused(folder: str) -> str:
    """Say why a folder is not to be covered although the kernel might permit it."""
    try:
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "it is read-only"
        if os.geteuid() == 0:
            return ""
        if view.submounts(folder):
            return "another file system is mounted inside it"
        # in a user namespace only one user and one group exist: to change a file of
        # another, which permissions may allow, would fail where it must not
        mine = (os.geteuid(), os.getegid())
        for status, path in _statuses(folder):
            if (status.st_uid, status.st_gid) != mine and os.access(path, os.W_OK):
                return f"{path} belongs to another user or group than yours"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _statuses(folder: str) -> Iterator[tuple[os.stat_result, str]]:
    yield os.stat(folder), folder
    for entry in _entries(folder):
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            yield status, entry.path


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """The entries below `folder`, the shallow before the deep, as far as time permits."""
    until, left = time.monotonic() + SCAN_S, SCAN_ENTRIES
    waiting = [folder]
    for path in waiting:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    left -= 1
        except OSError:
            continue  # not ours to read
        if left < 0 or time.monotonic() > until:
            return


def _try(folders: Sequence[str], scratch: Path, keep: Sequence[Path]) -> str:
    """Enclose a small command that writes; return why that did not work, or ''."""
    if not folders:
        return ""
    mark, space = f".trainperf-{os.urandom(16).hex()}", scratch / f"probe-{os.urandom(4).hex()}"
    devices = [str(os.stat(path).st_dev) for path in folders]
    test = (sys.executable, "-I", "-S", "-c", _WRITE_TEST, mark, str(len(folders)))
    command = (*test, *folders, *devices, *(str(path) for path in keep))
    try:
        space.mkdir(parents=True)
        result = subprocess.run(
            view.enclosed(command, folders, space, keep),
            cwd=folders[0],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PROBE_S,
            text=True,
            errors="replace",
        )
        reached = [path for path in folders if _removed(os.path.join(path, mark))]
        kept = [path for path in keep if _removed(os.path.join(path, mark))]
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    finally:
        view.remove(space)
    if result.returncode != 0:
        return _reason(result.stderr)
    if reached:
        return "the view did not hold back what was written"
    if len(kept) != len(keep):
        return "trainperf's own files would not leave the view"
    return ""


def _removed(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _reason(output: str) -> str:
    lines = output.strip().splitlines()
    last = lines[-1].removeprefix("trainperf: no copy-on-write view: ") if lines else "it failed"
    if last.startswith("unshare") or "uid_map" in last or "Operation not permitted" in last:
        return f"no copy-on-write view is permitted here ({last}), as in most containers"
    return f"no copy-on-write view ({last})"


def said(found: View) -> tuple[str, ...]:
    """Return the sentences that tell the user what is guarded, before the first run."""
    elsewhere = "what the script writes elsewhere" if found.folders else "what the script writes"
    covered = [f"{path} stays as it is: the script writes to a copy" for path in found.folders]
    return (
        *covered,
        *(f"not guarded: {text}" for text in found.unguarded),
        f"not guarded: {elsewhere} by other means than Keras, TensorFlow and PyTorch, or sends",
    )


def tracker_environment(folder: Path, current: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that keep experiment trackers from the network.

    Weights & Biases, Neptune, ClearML, SwanLab and MLflow then write below `folder`, or
    into hidden folders of the working directory. What the user has switched off stays
    off. A mode that the script passes in its code wins over these; Comet offers no
    variable for it.
    """
    modes = {
        "WANDB_MODE": "offline",
        "NEPTUNE_MODE": "offline",
        "SWANLAB_MODE": "offline",
        "CLEARML_OFFLINE_MODE": "1",
    }
    off = ("disabled", "offline", "dryrun", "debug", "read-only")
    variables = {name: mode for name, mode in modes.items() if current.get(name) not in off}
    return variables | {
        "WANDB_DIR": str(folder),
        "SWANLAB_LOG_DIR": str(folder / "swanlog"),
        # its store of plain files is refused by newer versions
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
        "MLFLOW_REGISTRY_URI": f"sqlite:///{folder / 'mlflow.db'}",
    }
