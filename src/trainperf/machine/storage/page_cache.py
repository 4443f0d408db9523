"""The kernel's cache of a file: how much of it is held, and having it dropped."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
from typing import Any

PAGE = mmap.PAGESIZE


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    return library


def tells(fd: int) -> bool:
    """Whether the kernel says what it holds of this file: only to those who may write to it.

    To others `mincore` calls every page resident (Linux 5.2 and later, man page mincore(2)).
    """
    status = os.fstat(fd)
    if os.geteuid() in (0, status.st_uid):
        return True
    try:
        return os.access(f"/proc/self/fd/{fd}", os.W_OK)
    except OSError:
        return False


def written(fd: int, offset: int, length: int) -> bool:
    """Whether a range holds data all through: of a hole no disk is asked, which looks fast.

    A file system that does not tell holes counts as one without.
    """
    try:
        if os.lseek(fd, offset, os.SEEK_DATA) != offset:
            return False
        return os.lseek(fd, offset, os.SEEK_HOLE) >= offset + length
    except OSError as error:
        return error.errno != errno.ENXIO  # no data behind the offset


def resident(fd: int, offset: int, length: int) -> float | None:
    """Share of the pages of a range that the kernel holds in memory; None where it says nothing.

    `offset` is a multiple of the page size. Looking reads nothing in.
    """
    if length <= 0:
        return None
    libc = _libc()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        pages = -(-length // PAGE)
        found = ctypes.create_string_buffer(pages)
        if libc.mincore(address, length, found):
            return None
        return sum(byte & 1 for byte in found.raw[:pages]) / pages
    finally:
        libc.munmap(address, length)


def drop(fd: int, offset: int, length: int) -> None:
    """Ask the kernel to drop a range; pages that are dirty or mapped elsewhere stay."""
    try:
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass
