"""Processes of Python's: which of them train, which help, and what started them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import psutil

from trainperf.run.launchers import ACCELERATE, MPIRUN, TORCHRUN
from trainperf.run.python_command import Program, program

OF_A_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables that a launcher sets for each rank and does not have itself."""
PROXIES = ("orted", "prted", "hydra_pmi_proxy")
"""Processes of mpirun's own between it and the ranks."""
LAUNCHERS = (*TORCHRUN, *ACCELERATE)
"""Programs of Python that start the ranks of a job."""
HELPERS = ("from multiprocessing.", "from torch.multiprocessing.")
"""How the code begins by which `multiprocessing` starts processes: workers, servers, trackers."""


def launches(found: Program | None) -> bool:
    """Whether a program is a launcher; what is not Python's is mpirun."""
    return found is None or os.path.basename(found.name) in LAUNCHERS


def is_python(process: psutil.Process) -> bool:
    """Whether it is an interpreter, and its command line is still that of one."""
    words = process.cmdline()
    return runs_python(process) and bool(words) and _named_python(words[0])


def runs_python(process: psutil.Process) -> bool:
    """Whether its program is an interpreter, whatever its command line says now."""
    try:
        return _named_python(os.readlink(f"/proc/{process.pid}/exe"))
    except OSError:
        return False  # of the kernel, or of another user


def is_mpirun(process: psutil.Process) -> bool:
    """Whether it is `mpirun` itself."""
    return os.path.basename((process.cmdline() or [""])[0]) in MPIRUN


def _named_python(path: str) -> bool:
    return os.path.basename(path).startswith(("python", "pypy"))


def not_helping(process: psutil.Process) -> psutil.Process:
    """The process itself; of a worker or another helper of Python's the one that started it."""
    while is_python(process):
        words, parent = process.cmdline(), process.parent()
        found = program(words)
        helps = found is not None and found.kind == "code" and found.name.startswith(HELPERS)
        forked = parent is not None and parent.cmdline() == words
        if parent is None or not (helps or forked) or not is_python(parent):
            break
        process = parent
    return process


def launcher_of(rank: psutil.Process) -> psutil.Process | None:
    """Return the launcher of a rank of a job; None for no rank, or where it cannot be seen."""
    if not _is_rank(rank):
        return None
    with suppress(psutil.AccessDenied, PermissionError):
        for one in rank.parents():
            if is_mpirun(one) or (is_python(one) and not _is_rank(one) and _starts_ranks(one)):
                return one
            if one.name() not in PROXIES:
                return None
    return None


def _starts_ranks(process: psutil.Process) -> bool:
    """Whether it is a launcher; a scheduler, or an editor, may have started one rank of many."""
    found = program(process.cmdline())
    if found is not None and launches(found):
        return True
    return len({number for number, _ in _ranks(process)}) > 1


def _is_rank(process: psutil.Process) -> bool:
    environment = process.environ()
    return any(environment.get(name) for name in OF_A_RANK)


def first_rank(launcher: psutil.Process) -> psutil.Process | None:
    """The rank 0 of a launcher's, or another where that cannot be seen."""
    ranks = _ranks(launcher)
    return min(ranks, key=lambda pair: (pair[0], pair[1].pid))[1] if ranks else None


def _ranks(launcher: psutil.Process) -> list[tuple[int, psutil.Process]]:
    ranks: list[tuple[int, psutil.Process]] = []
    for one in launcher.children(recursive=True):
        with suppress(psutil.Error, OSError):
            given = (one.environ().get(name) for name in OF_A_RANK)
            number = next((text for text in given if text and text.isdigit()), None)
            if number is not None and is_python(one):
                ranks.append((int(number), one))
    return ranks


def pythons_below(process: psutil.Process) -> Iterator[psutil.Process]:
    """The topmost Python processes below one."""
    for one in process.children():
        with suppress(psutil.Error, OSError):
            if is_python(one):
                yield one
            else:
                yield from pythons_below(one)
