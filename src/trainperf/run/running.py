"""A job that runs already: its command, folder, environment and interpreter, from `/proc`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from trainperf.errors import TrainperfError
from trainperf.run.launchers import ACCELERATE, MPIRUN, TORCHRUN, Program, program
from trainperf.run.processes import began, is_gone

KERNELS = ("ipykernel", "colab_kernel")
"""How the programs are named that run the cells of a notebook."""
_OF_A_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables that a launcher sets for each rank and does not have itself."""
_PROXIES = ("orted", "prted", "hydra_pmi_proxy")
"""Processes of mpirun's own between it and the ranks."""
_LAUNCHERS = (*TORCHRUN, *ACCELERATE)
"""Programs of Python that start the ranks of a job."""
_HELPERS = (
    "from multiprocessing.",
    "from torch.multiprocessing.",
    "import sys; from multiprocessing.",
)
"""How the code begins by which `multiprocessing` starts processes: workers, servers, trackers."""


@dataclass(frozen=True)
class Job:
    """A job that runs, as it can be started once more.

    `asked` is the process that was named, `pid` the one whose command this is. `command` begins
    with the path of its interpreter or launcher; `script` is the file of the program if it is
    known. `began` is seconds since the epoch, `ticks` by a clock that nobody sets. The
    `environment` may hold secrets: it is for the processes that are started, and for nothing that
    is printed or stored.
    """

    asked: int
    pid: int
    command: tuple[str, ...]
    label: str
    cwd: str
    began: float
    ticks: int
    environment: dict[str, str] = field(repr=False)
    script: str | None = None


def read(pid: int) -> Job:
    """Return the job of process `pid`, or of what started it where that is a rank or a worker.

    Raises `TrainperfError` where there is no such process, where it may not be read, runs
    elsewhere, is not Python, or could not be started again as it was.
    """
    try:
        asked = psutil.Process(pid)
        _check_reachable(asked)
        return _job(asked)
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        raise TrainperfError(f"there is no process {pid}, or it has just ended", _HOW) from None
    except (psutil.AccessDenied, PermissionError):
        raise TrainperfError(
            f"process {pid} may not be read: its environment is not open to this user",
            "run trainperf as the user and in the container of the job",
        ) from None


_HOW = "ps -ef lists what runs; a job that has ended: trainperf diagnose SCRIPT"


def is_alive(job: Job) -> bool:
    """Whether the job still runs."""
    return not is_gone(job.pid, job.ticks)


def _check_reachable(process: psutil.Process) -> None:
    if process.pid == os.getpid():
        raise TrainperfError(f"process {process.pid} is this trainperf", _HOW)
    if process.uids().effective != os.geteuid():
        owner = process.username()
        raise TrainperfError(
            f"process {process.pid} belongs to {owner}: it would be run again as another user",
            f"run trainperf as {owner}",
        )
    if not os.path.samefile(f"/proc/{process.pid}/root", "/") or (
        os.readlink(f"/proc/{process.pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    ):
        raise TrainperfError(
            f"process {process.pid} sees other files than this one: it runs in another container, "
            "or in a view of its own",
            "run trainperf where the job runs: docker exec, kubectl exec",
        )


def _job(asked: psutil.Process) -> Job:
    rank = _not_helping(asked)
    starter = _launcher_of(rank) or rank
    words, environment = starter.cmdline(), dict(starter.environ())
    found = program(words) if _is_python(starter) else None
    if found is None and not _is_mpirun(starter):
        raise _not_a_program(starter)
    if found is not None and os.path.basename(found.name).startswith(KERNELS):
        raise TrainperfError(
            f"process {asked.pid} is a notebook's kernel: its command does not say what it runs",
            "jupyter nbconvert --to script NOTEBOOK, then trainperf diagnose SCRIPT",
        )
    script = _script(words, found)
    cwd = _folder(starter, script, environment)
    file = _file(cwd, script, found)
    return Job(
        asked=asked.pid,
        pid=starter.pid,
        command=(_interpreter(starter, words[0], cwd, environment), *words[1:]),
        label=_label(words, found),
        cwd=cwd,
        began=starter.create_time(),
        ticks=began(starter.pid) or 0,
        environment=environment,
        script=None if file is None else str(file),
    )


def _label(words: Sequence[str], found: Program | None) -> str:
    if found is None:
        return " ".join((os.path.basename(words[0]), *words[1:]))
    if _launches(found):
        return " ".join((os.path.basename(found.name), *words[found.at :]))
    return {"script": found.name, "module": f"-m {found.name}", "code": "python -c"}[found.kind]


def _not_a_program(process: psutil.Process) -> TrainperfError:
    name, pid = process.name(), process.pid
    if _is_python(process):
        why = "a Python without a script in its command: a prompt, or what it was piped"
        return TrainperfError(f"process {pid} is {why}", "trainperf diagnose SCRIPT")
    children = process.children(recursive=True)
    below = [one for one in children if one.pid != os.getpid() and _is_python(one)]
    if below:
        told = f"{below[0].pid} ({' '.join(below[0].cmdline())[:80]})"
        return TrainperfError(
            f"process {pid} ({name}) is not Python; below it: {told}",
            f"trainperf diagnose --pid {below[0].pid}",
        )
    return TrainperfError(
        f"process {pid} ({name}) is not Python, and starts none", "trainperf diagnose SCRIPT"
    )


# ------------------------------------------------------------------ what it would need


def _script(words: Sequence[str], found: Program | None) -> str | None:
    """The file of the program, as it stands in the command; a launcher's is what it starts."""
    if _launches(found):
        at = found.at if found is not None else 1
        return next((word for word in words[at:] if word.endswith(".py")), None)
    return found.name if found is not None and found.kind == "script" else None


def _folder(process: psutil.Process, script: str | None, environment: Mapping[str, str]) -> str:
    """Where the job was started. One that has moved since is looked for where its shell was."""
    here = process.cwd()
    for place in filter(os.path.isdir, (here, environment.get("PWD", ""))):
        if script is None or os.path.exists(os.path.join(place, script)):
            return place
    raise TrainperfError(
        f"process {process.pid} runs {script or 'a program'}, which is no longer in {here}",
        "trainperf diagnose SCRIPT, where the script is now",
    )


def _file(cwd: str, script: str | None, found: Program | None) -> Path | None:
    if script is not None:
        return Path(cwd) / script
    if found is None or found.kind != "module" or _launches(found):
        return None
    at = Path(cwd).joinpath(*found.name.split("."))
    return next((one for one in (at.with_suffix(".py"), at / "__main__.py") if one.exists()), None)


def _interpreter(
    process: psutil.Process, name: str, cwd: str, environment: Mapping[str, str]
) -> str:
    """The path of what runs, by the name it was started with: that leads to its packages."""
    running = f"/proc/{process.pid}/exe"
    named = os.path.join(cwd, name) if os.sep in name else name
    found = shutil.which(named, path=environment.get("PATH"))
    same = found is not None and os.path.samefile(found, running)
    return found if found is not None and same else os.readlink(running)


def _launches(found: Program | None) -> bool:
    """Whether a program is a launcher; what is not Python's is mpirun."""
    return found is None or os.path.basename(found.name) in _LAUNCHERS


def _is_python(process: psutil.Process) -> bool:
    """Whether it is an interpreter, and its command line is still that of one."""
    try:
        exe = os.readlink(f"/proc/{process.pid}/exe")
    except OSError:
        return False  # of the kernel, or of another user
    names = (os.path.basename(path) for path in (exe, *process.cmdline()[:1]))
    return all(name.startswith(("python", "pypy")) for name in names)


def _is_mpirun(process: psutil.Process) -> bool:
    return os.path.basename((process.cmdline() or [""])[0]) in MPIRUN


def _not_helping(process: psutil.Process) -> psutil.Process:
    """The process itself; of a worker or another helper of Python's the one that started it."""
    while _is_python(process):
        words, parent = process.cmdline(), process.parent()
        found = program(words)
        helps = found is not None and found.kind == "code" and found.name.startswith(_HELPERS)
        forked = parent is not None and parent.cmdline() == words
        if parent is None or not (helps or forked) or not _is_python(parent):
            break
        process = parent
    return process


def _launcher_of(rank: psutil.Process) -> psutil.Process | None:
    """Return the launcher of a rank of a job; None for no rank, or where it cannot be seen."""
    if not _is_rank(rank):
        return None
    with suppress(psutil.Error, OSError):
        for one in rank.parents():
            if _is_mpirun(one):
                return one
            if _is_python(one) and not _is_rank(one):
                found = program(one.cmdline())
                known = found is not None and _launches(found)
                # What started one rank alone may be a scheduler, or an editor.
                return one if known or sum(map(_is_rank, one.children())) > 1 else None
            if one.name() not in _PROXIES:
                return None
    return None


def _is_rank(process: psutil.Process) -> bool:
    environment = process.environ()
    return any(environment.get(name) for name in _OF_A_RANK)
