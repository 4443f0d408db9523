"""Files in which others wrote what stands: read where they are files, and no further than told.

A script may have put a pipe in their place, which would be waited for, or more than memory holds.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

MIB = 1 << 20


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file to be read; raises `OSError` for what is none, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


def read(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the bytes of a regular file of `most` bytes at most; raises `OSError`.

    A larger one is not read at all.
    """
    with opened(path) as file:
        data = b"" if os.fstat(file.fileno()).st_size > most else file.read(most + 1)
        size = max(len(data), os.fstat(file.fileno()).st_size)
    if size > most:
        text = f"it is larger than {most // MIB} MiB"
        raise OSError(errno.EFBIG, text, os.fspath(Path(path)))
    return data
