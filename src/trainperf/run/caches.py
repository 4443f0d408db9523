"""Compiled code for the legs of a trial: read from the user's caches, written elsewhere.

A leg that finds what the user's own runs have compiled starts as they do, and what one leg has
compiled the next need not: that takes minutes for a large model. Nothing of it reaches the user's
folders, and nothing is left of it.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

INDUCTOR, TRITON, TRITON_HOME = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME"
LOCKS = "locks"
"""TorchInductor's own: a lock of a file of the user's would be one of the user's runs."""
LONGEST_S = 2.0
"""Reading the user's folders takes no longer: what is not found is compiled again."""


@dataclass(frozen=True)
class _Cache:
    """A folder of the user's that a variable names: `within` is what counts."""

    variable: str
    source: str
    name: str
    within: str = ""


def private(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The variables by which legs with the environment `given` use what `folder` holds."""
    return {cache.variable: str(folder / cache.name) for cache in _caches(given)}


@contextmanager
def filled(given: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Make the folders that `private` names, with all that the user's hold, and remove them.

    Files of the user's are linked, which costs little; all that writes there puts new files in
    their place (`torch._inductor.codecache.write_atomic`, Triton's `os.replace`).
    """
    until = time.monotonic() + LONGEST_S
    try:
        for cache in _caches(given):
            with suppress(OSError):
                place = folder / cache.name / cache.within
                _link(Path(cache.source) / cache.within, place, until)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _caches(given: Mapping[str, str]) -> Iterator[_Cache]:
    """Where PyTorch and Triton keep what they compiled.

    Kernels of TorchInductor lie in its own folder unless `TRITON_CACHE_DIR` is set, so that is
    moved only where it is; the user's own kernels lie in `.triton/cache` of the home.
    """
    yield _Cache(INDUCTOR, given.get(INDUCTOR) or _of_inductor(given), "inductor")
    if given.get(TRITON):
        yield _Cache(TRITON, given[TRITON], "triton")
    else:
        home = given.get(TRITON_HOME) or given.get("HOME") or os.path.expanduser("~")
        yield _Cache(TRITON_HOME, home, "triton", within=".triton/cache")


def _of_inductor(given: Mapping[str, str]) -> str:
    """As `torch._inductor.runtime.cache_dir_utils.default_cache_dir` has it."""
    try:
        name = getpass.getuser()
    except (KeyError, ImportError, OSError):
        name = f"uid_{os.getuid()}"
    base = given.get("TMPDIR") or tempfile.gettempdir()
    return os.path.join(base, "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", name))


def _link(source: Path, target: Path, until: float) -> None:
    """Fill `target` with links to all files of `source`, in folders of its own."""
    target.mkdir(parents=True, exist_ok=True)
    for path, folders, files in os.walk(source):
        if LOCKS in folders:
            folders.remove(LOCKS)
        own = target / os.path.relpath(path, source)
        own.mkdir(exist_ok=True)
        for name in files:
            if time.monotonic() > until:
                return
            with suppress(OSError):
                os.symlink(os.path.abspath(os.path.join(path, name)), own / name)
