"""A card with room for so many processes, for scripts of tests that run side by side.

A script takes its place with `enter`, as early as a real one would allocate its model. The
NVML stub reads the same folder (`STUB_LEGS`), so what the card holds grows and shrinks with
the processes that are alive, paused ones included.
"""

from __future__ import annotations

import os
from pathlib import Path

GIB = 1024**3
MESSAGE = (
    "CUDA out of memory. Tried to allocate {each:.2f} GiB. GPU 0 has a total capacity of "
    "{total:.2f} GiB of which {free:.2f} GiB is free. Including non-PyTorch memory, this process "
    "has 0.44 GiB memory in use."
)
"""As PyTorch's allocator says it."""


def enter(folder: str | os.PathLike[str], most: int, each: float = 2.0) -> None:
    """Take a place among the processes that live on the card, `each` GiB of it.

    Raises `torch.OutOfMemoryError` where more than `most` would live: what came too late
    fails, those before it go on.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    own = place / str(os.getpid())
    own.touch()
    if len(living(place)) > most:
        own.unlink()
        import torch

        total = each * most + 0.5
        raise torch.OutOfMemoryError(MESSAGE.format(each=each, total=total, free=0.5))


def living(folder: str | os.PathLike[str]) -> list[int]:
    """The processes that took a place and have not ended."""
    numbers = [int(one.name) for one in Path(folder).iterdir() if one.name.isdigit()]
    return sorted(number for number in numbers if _lives(number))


def _lives(number: int) -> bool:
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
