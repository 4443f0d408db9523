"""Putting new bytes in place of files: all of them, or none."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from trainperf.errors import TrainperfError


def replace_all(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """Put `after` in place of files that hold `before`; return what is to be known of it.

    Both are by path; symbolic links stay, what they lead to is replaced. Each file is
    replaced at once by a new one, on disk by then, with its mode, owner and extended
    attributes as far as permitted. Raises `TrainperfError` where one of them holds
    something else or cannot be written; then, or if interrupted, all are as before.
    """
    real = {path: os.path.realpath(path) for path in after}
    notes = [note for path in after for note in _check(path, real[path])]
    with _staged({real[path]: data for path, data in after.items()}) as new:
        for path in after:
            if _read(path) != before[path]:
                raise TrainperfError(
                    f"{path} was changed just now: nothing was written", hint="try again"
                )
        done: list[str] = []
        try:
            for target, temporary in new.items():
                done.append(target)
                os.replace(temporary, target)
        except BaseException as error:
            old = {each: before[path] for path, each in real.items() if each in done}
            with _staged(old) as copies:
                for target, temporary in copies.items():
                    os.replace(temporary, target)
            if isinstance(error, OSError):
                raise _failure(done[-1], error) from error
            raise
    for folder in {os.path.dirname(each) for each in real.values()}:
        with suppress(OSError):
            _sync(folder)
    return tuple(notes)


def _check(path: str, real: str) -> Iterator[str]:
    """Refuse what is not to be replaced; give notes on the rest."""
    try:
        found = os.stat(real)
    except OSError as error:
        raise _failure(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise TrainperfError(f"{path} is no ordinary file", hint="nothing was written")
    if not found.st_mode & 0o222 or not os.access(real, os.W_OK):
        raise TrainperfError(
            f"{path} is read-only: nothing was written", hint="make it writable first"
        )
    if os.path.islink(path):
        yield f"{path} is a symbolic link: {real} was written"
    if found.st_nlink > 1:
        yield f"{path} had another hard link, which keeps the old text"
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        yield f"{path} belonged to another user and is yours now"


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _failure(path, error) from error


@contextmanager
def _staged(contents: Mapping[str, bytes]) -> Iterator[dict[str, str]]:
    """Write new files beside those they are for; what is left of them goes in the end."""
    temporary: dict[str, str] = {}
    try:
        for path, data in contents.items():
            try:
                number, temporary[path] = tempfile.mkstemp(".part", ".", os.path.dirname(path))
                _write(number, data, like=path)
            except OSError as error:
                raise _failure(path, error) from error
        yield temporary
    finally:
        for each in temporary.values():
            with suppress(OSError):
                os.unlink(each)


def _write(number: int, data: bytes, like: str) -> None:
    with open(number, "wb") as file:
        found = os.stat(like)
        file.write(data)
        file.flush()
        with suppress(OSError):
            os.fchown(number, found.st_uid, found.st_gid)
        with suppress(OSError):  # access lists among them
            for name in os.listxattr(like):
                os.setxattr(number, name, os.getxattr(like, name))
        os.fchmod(number, stat.S_IMODE(found.st_mode))
        os.fsync(number)


def _sync(folder: str) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _failure(path: str, error: OSError) -> TrainperfError:
    return TrainperfError(
        f"{path} cannot be written: {error.strerror}; all files are as they were",
        hint="see that its folder can be written to and has space",
    )
