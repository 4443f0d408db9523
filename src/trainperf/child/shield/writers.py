"""Where a framework's writers write instead of over what the user has.

For what the copy-on-write view does not cover: other folders, remote storage, and
everything where the kernel permits no view. Each path has one place in the run's
scratch folder; what was written there is read from there, all else from where it is.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

_DEVICES = ("/dev/", "/proc/", "/sys/")


class Scratch:
    """Gives each path that must stay as it is a place in `folder/scratch`.

    Paths in a folder of `guarded` (seen copy-on-write) stay what they are, and those in
    temporary folders that this process made. `note` takes what the report should say.
    """

    def __init__(
        self,
        folder: str,
        guarded: Iterable[str] = (),
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        import tempfile

        self._run = os.path.realpath(folder)
        self.folder = os.path.join(self._run, "scratch")
        self._note = note
        self._guarded = {path: device(path) for path in map(os.path.realpath, guarded)}
        temporary = {os.path.realpath(path) for path in (tempfile.gettempdir(), "/tmp", "/var/tmp")}
        self._before = {
            path: frozenset(os.listdir(path)) for path in temporary if os.access(path, os.R_OK)
        }
        self._removed: set[str] = set()

    def place(self, path: Any) -> str | None:
        """The place in the scratch folder for `path`; None for one that stays."""
        name = text(path)
        if not name:
            return None
        scheme, real = _parts(name)
        if scheme:
            rest = [part for part in real.split("/") if part not in ("", ".", "..")]
            return os.path.join(self.folder, "remote", scheme, *rest)
        return None if self._stays(real) else os.path.join(self.folder, "local") + real

    def redirect(self, path: Any, append: bool = False) -> Any:
        """Where to write what is meant for `path`; the folder for it is there.

        With `append`, what is at `path` now is there as well. What is no path, such as
        an open file, is returned as it is.
        """
        place = self.place(path)
        if place is None:
            return path
        scheme, _ = _parts(text(path))
        if scheme:
            self._note(
                f"what is written to {scheme}:// went to the local disk instead: "
                "what writing it remotely costs is not in the times"
            )
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if append and not os.path.lexists(place) and self.reading(path) == path:
                import shutil

                shutil.copyfile(path, place)
        except (OSError, ValueError):
            pass  # nothing there to copy; or no such folder can be, as the writer will notice
        return place

    def reading(self, path: Any, endings: tuple[str, ...] = ("",)) -> Any:
        """Where to read `path`: its place if it was written or removed in this run.

        `endings` is what a name gets to become that of a file, one of which shows that
        it was written.
        """
        place = self.place(path)
        if place is None:
            return path
        if any(os.path.lexists(place + ending) for ending in endings):
            return place
        return place if self.is_removed(path) else path

    def remove(self, path: Any) -> None:
        """Take `path` for removed from now on, without touching it."""
        self._removed.add("://".join(_parts(text(path))))

    def is_removed(self, path: Any) -> bool:
        """Whether `path`, or a folder around it, was removed in this run."""
        at = "://".join(_parts(text(path)))
        while self._removed and at not in self._removed:
            shorter = at.rpartition("/")[0]
            if shorter in ("", at):
                return False
            at = shorter
        return bool(self._removed)

    def _stays(self, real: str) -> bool:
        if _inside(real, self._run) or real.startswith(_DEVICES):
            return True
        existing = real
        while not os.path.isdir(existing):
            existing = os.path.dirname(existing)
        on = device(existing)  # on another one something else is mounted, which is not covered
        if any(_inside(real, folder) and number == on for folder, number in self._guarded.items()):
            return True
        for folder, names in self._before.items():
            if _inside(real, folder) and real != folder:
                top = os.path.relpath(real, folder).split("/")[0]
                if top not in names and os.path.lexists(os.path.join(folder, top)):
                    return True
        return False


def text(path: Any) -> str:
    """The path as text, or '' for what is no path."""
    if isinstance(path, os.PathLike):
        path = path.__fspath__()
    if isinstance(path, bytes):
        return os.fsdecode(path)
    return path if isinstance(path, str) else ""


def _parts(name: str) -> tuple[str, str]:
    """The scheme of a remote path ('' for a local one), and the rest in its plain form."""
    scheme, separator, rest = name.partition("://")
    local = not separator or "/" in scheme
    if not local and scheme != "file":
        return scheme, rest.strip("/")
    try:
        return "", os.path.realpath(name if local else rest)
    except (OSError, ValueError):  # the working directory is gone; a zero byte
        return "", "/" + (name if local else rest)


def is_remote(path: Any) -> bool:
    """Whether a path names something that is not on this machine's file systems."""
    return bool(_parts(text(path))[0])


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def device(path: str) -> int | None:
    """The device number of a folder; None if it is not there."""
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def argument(number: int, name: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a wrapper that changes one argument, by position or by name."""

    def make(original: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if name in kwargs:
                kwargs[name] = change(kwargs[name])
            elif len(args) > number:
                args = (*args[:number], change(args[number]), *args[number + 1 :])
            return original(*args, **kwargs)

        return wrapper

    return make


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(original)` in place of a function that is there, looking like it."""
    if name in vars(owner):
        original = vars(owner)[name]
        wrapper: Any = functools.wraps(original)(make(original))
        wrapper._trainperf_original = original
        setattr(owner, name, wrapper)


def mend_renames(guarded: Iterable[str]) -> None:
    """Let folders that were there before be renamed inside a copy-on-write view.

    For an ordinary user the kernel refuses that, as across file systems; a copy does it.
    """
    devices = {device(path) for path in guarded} - {None}

    def within(src: Any, dst: Any) -> bool:
        """Whether both are folders' names in the same view."""
        paths = (os.path.abspath(os.fsdecode(path)) for path in (src, dst))
        around = {device(os.path.dirname(path)) for path in paths}
        whole = os.path.isdir(src) and not os.path.islink(src)
        return whole and len(around) == 1 and around <= devices

    def make(original: Any) -> Any:
        def rename(src: Any, dst: Any, **kwargs: Any) -> None:
            try:
                original(src, dst, **kwargs)
                return
            except OSError as error:
                if error.errno != errno.EXDEV or kwargs or not within(src, dst):
                    raise
            import shutil

            if os.path.isdir(dst):
                os.rmdir(dst)
            shutil.copytree(src, dst, symlinks=True)
            shutil.rmtree(src)

        return rename

    if devices:
        wrap(os, "rename", make)
        wrap(os, "replace", make)
