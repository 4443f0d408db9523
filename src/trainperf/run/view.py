"""A copy-on-write view of the user's folders for a command, where the kernel permits.

What the command writes, changes or deletes in the folders goes to a scratch folder;
the folders stay as they are, and reading them costs nothing. It is an overlay mount
in a mount namespace of the command's own, gone with its last process.

Run as a program, this file makes the view and becomes the command. It imports nothing
of trainperf, so that it starts from its path alone, and little else, to start fast.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

NO_VIEW = 125
"""Exit status of a command whose view could not be made: the command did not start."""
NOT_STARTED = 127

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_BIND, _REC, _SLAVE = 0x1000, 0x4000, 1 << 19
_KEPT_FLAGS = 2 | 4 | 8  # nosuid, nodev, noexec: the same bits for mount and statvfs
_SET_DEATH, _GET_DEATH = 1, 2


def enclosed(
    command: Sequence[str],
    folders: Sequence[str],
    scratch: Path,
    keep: Sequence[Path],
    files: Mapping[str, str | None] | None = None,
) -> tuple[str, ...]:
    """Return the command that runs `command` with a copy-on-write view of `folders`.

    `scratch` is a fresh folder of this run alone: what is written goes there. What is
    written below the folders in `keep` is written for real. In the view the `files` hold what
    those that they name hold, and one that names None is not there. Ask `guarding.probe` first
    which folders can be covered: where one of `folders` cannot, the command does not
    start, and what stands for it exits with `NO_VIEW` and a line on stderr.
    """
    if not folders:
        return tuple(command)
    spec = {
        "folders": list(folders),
        "scratch": os.path.abspath(scratch),
        "keep": [os.path.realpath(path) for path in keep],
        "files": dict(files or {}),
    }
    return (sys.executable, "-I", "-S", os.path.abspath(__file__), json.dumps(spec), *command)


def remove(scratch: str | os.PathLike[str]) -> None:
    """Remove a folder, with the folders that overlay mounts leave unreadable in it.

    Never raises; call it when no process of the run is left.
    """
    import shutil

    for folder, names, _ in os.walk(scratch):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                try:
                    os.chmod(path, 0o700)
                except OSError:
                    pass
    shutil.rmtree(scratch, ignore_errors=True)


def submounts(folder: str) -> list[str]:
    """The mount points beneath `folder`, outermost first."""
    found = {path for path, _ in mounts() if path.startswith(folder.rstrip("/") + "/")}
    return sorted(found)


def mounts() -> Iterator[tuple[str, str]]:
    """Every mount point of this process, and its type, in the order of mounting."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields, _, rest = line.partition(b" - ")
            point = fields.split()[4].decode("unicode_escape").encode("latin-1")
            yield os.fsdecode(point), rest.split()[0].decode()


def hidden_folders(folder: str) -> list[str]:
    """The hidden folders of the home folder, if `folder` is that; else none.

    Downloads are kept in them (data sets, weights). A run that lost what it fetched
    would fetch it again in every leg.
    """
    if folder != os.path.realpath(os.path.expanduser("~")):
        return []
    with os.scandir(folder) as entries:
        return [
            entry.path
            for entry in entries
            if entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
        ]


class _Libc:
    """The system calls that Python lacks; each raises `OSError` with what was tried."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def _check(self, result: int, what: str) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), what)

    def unshare(self, flags: int) -> None:
        self._check(self._libc.unshare(flags), "unshare")

    def mount(self, source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        words = [os.fsencode(word) for word in (source, target, kind)]
        result = self._libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None)
        self._check(result, f"mount {kind or source} at {target}")

    def death_signal(self) -> int:
        number = ctypes.c_int()
        self._libc.prctl(_GET_DEATH, ctypes.byref(number))
        return number.value

    def set_death_signal(self, number: int) -> None:
        self._check(self._libc.prctl(_SET_DEATH, ctypes.c_ulong(number)), "prctl")


def cover(folders: Sequence[str], scratch: str, keep: Sequence[str]) -> None:
    """Put this process into a mount namespace in which `folders` are copy-on-write.

    Raises `OSError` if the kernel does not permit it; the process is of no use then.
    """
    libc = _Libc()
    parent, death, cwd = os.getppid(), libc.death_signal(), os.getcwd()
    _unshare(libc)
    if death:  # new credentials have cleared it
        libc.set_death_signal(death)
        if os.getppid() != parent:
            os._exit(1)
    libc.mount("none", "/", "", _REC | _SLAVE)
    through = {
        path
        for folder in folders
        for path in (*keep, *submounts(folder), *hidden_folders(folder))
        if path.startswith(folder.rstrip("/") + "/")
    }
    held = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in sorted(through)]
    for number, folder in enumerate(folders):
        _overlay(libc, folder, os.path.join(scratch, str(number)))
    for path, fd in held:
        libc.mount(f"/proc/self/fd/{fd}", path, "", _BIND | _REC)
    os.chdir(cwd)  # the one we stood in lies below the view


def lay(files: Mapping[str, str | None], folders: Sequence[str]) -> None:
    """Write `files` into the view of `folders` that this process stands in.

    Raises `OSError`, so where a file would be written for real: the view lets some folders through.
    """
    for path, kept in files.items():
        place = os.path.dirname(path)
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        covers = [one for one in folders if f"{place}/".startswith(f"{one}/")]
        if not covers or os.stat(place).st_dev != os.stat(covers[0]).st_dev:
            raise OSError(1, "it is not in the view", path)
        if os.path.lexists(path):
            os.unlink(path)
        if kept is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(kept, "rb") as source, open(path, "xb") as laid:
                laid.write(source.read())


def _unshare(libc: _Libc) -> None:
    """Enter a mount namespace: as we are if we may, else as owner of a user namespace.

    Root is never put into a user namespace: the files of all others would be lost to
    it. An ordinary user keeps the same ids, and no capabilities once it calls exec.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        libc.unshare(_NEWNS)
        return
    except PermissionError:
        if user == 0:
            raise
    libc.unshare(_NEWUSER | _NEWNS)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _overlay(libc: _Libc, folder: str, scratch: str) -> None:
    """Mount the view over `folder`: kept on disk, or in memory where the disk cannot.

    An overlay, a network file system or a folder inside the view cannot hold what is
    written. The paths go in as descriptors, so that no character needs escaping.
    """
    os.makedirs(scratch, mode=0o700)
    try:
        _overlay_on(libc, folder, scratch)
    except OSError:
        libc.mount("tmpfs", scratch, "tmpfs", 2 | 4, "mode=700")
        _overlay_on(libc, folder, scratch)


def _overlay_on(libc: _Libc, folder: str, scratch: str) -> None:
    upper, work = os.path.join(scratch, "upper"), os.path.join(scratch, "work")
    for path in (upper, work):
        os.mkdir(path, 0o700)
    initial = _in_initial_user_namespace()
    mark = f"{'trusted' if initial else 'user'}.trainperf"
    os.setxattr(upper, mark, b"1")  # without these a deleted folder could not be made anew
    os.removexattr(upper, mark)
    _look_like(upper, folder)
    fds = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (folder, upper, work)]
    lower, above, aside = (f"/proc/self/fd/{fd}" for fd in fds)
    # a folder that was there before can only be renamed with redirect_dir
    extra = "redirect_dir=on" if initial else "userxattr"
    options = f"lowerdir={lower},upperdir={above},workdir={aside},{extra}"
    try:
        flags = os.statvfs(folder).f_flag & _KEPT_FLAGS
        libc.mount("overlay", folder, "overlay", flags, options)
    finally:
        for fd in fds:
            os.close(fd)


def _in_initial_user_namespace() -> bool:
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read().split() == ["0", "0", "4294967295"]


def _look_like(upper: str, folder: str) -> None:
    """Give the upper folder what the view's root takes from it: owner, mode, times."""
    status = os.stat(folder)
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(upper, status.st_uid, status.st_gid)
    os.chmod(upper, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(folder):
        if "overlay." not in name:
            try:
                os.setxattr(upper, name, os.getxattr(folder, name))
            except OSError:
                pass  # not ours to set: a label of the security module
    os.utime(upper, ns=(status.st_atime_ns, status.st_mtime_ns))


def _become(command: Sequence[str]) -> NoReturn:
    """Become the command, as if it had been started in our place.

    Python ignores two signals, and may set LC_CTYPE, at its start: both are undone.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry)
        environment = {name: value for name, _, value in pairs}
    name = os.fsencode(command[0])
    words = {os.fsdecode(key): os.fsdecode(value) for key, value in environment.items()}
    folders = [""] if b"/" in name else os.get_exec_path(words)
    error: OSError = FileNotFoundError(2, os.strerror(2))
    for folder in folders:
        try:
            os.execve(os.path.join(os.fsencode(folder), name), list(command), environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as other:
            error = other
    print(f"trainperf: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
    os._exit(NOT_STARTED)


def _main(text: str, *command: str) -> NoReturn:
    spec = json.loads(text)
    try:
        cover(spec["folders"], spec["scratch"], spec["keep"])
        lay(spec["files"], spec["folders"])
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"trainperf: no copy-on-write view: {what}", file=sys.stderr)
        os._exit(NO_VIEW)
    _become(command)


if __name__ == "__main__":
    _main(*sys.argv[1:])
