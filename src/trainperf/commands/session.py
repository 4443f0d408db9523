"""One `trainperf diagnose`: what to run, and its progress."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainperf import store
from trainperf.commands.progress import Progress
from trainperf.commands.run_folders import new_folder
from trainperf.diagnose import Request
from trainperf.diagnose import diagnose as run_diagnosis
from trainperf.errors import TrainperfError
from trainperf.recording.cells import STRIDE, is_notebook, spot
from trainperf.recording.run import Event, Recording, Run
from trainperf.report.plain import one_line
from trainperf.run import guarding
from trainperf.run.interpreter import interpreter_for
from trainperf.run.sweeping import sweep
from trainperf.source.notebooks.notebook import NotANotebook, Notebook

if TYPE_CHECKING:
    from rich.console import Console

    from trainperf.model import Diagnosis, TraceFile
    from trainperf.run.running import Job
    from trainperf.settings import Settings

    Pipeline = Callable[[Request, Callable[[Event], None]], tuple[Diagnosis, Recording]]
    """What is made of a request; `diagnose` is one."""

    Saved = tuple[Diagnosis, Path, TrainperfError | None]
    """A diagnosis, where `trainperf show` finds it, and the error where it could not be saved."""

LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "lightning", "fabric", "srun", "mpirun", "uv")

MOST_NAMED = 4
"""So many commands to IPython are named of those that are left out."""

USUAL_S = 15.0
"""Seconds for timing a loop, its stages and its probes on a quiet machine."""


@dataclass(frozen=True)
class Target:
    """The program to run: its command, its name in the report, its script if known.

    `notes` are what is to be known of how it is run, `job` is the running one that it is taken
    from.
    """

    command: tuple[str, ...]
    label: str
    cwd: Path
    script: str | None = None
    notes: tuple[str, ...] = ()
    job: Job | None = None


def target(
    module: str | None,
    command: tuple[str, ...],
    cwd: Path,
    called: str = "diagnose",
    python: Path | None = None,
) -> Target:
    """Make the command to run from `-m MODULE ARGS`, `-- COMMAND` or `SCRIPT ARGS`.

    `called` is the command of ours that is to run it, as its errors name it; `python` the
    interpreter that was asked for, or its environment. Raises `TrainperfError` if the script is
    missing, is not Python, or does not parse, or there is no such interpreter.
    """
    if module is not None:
        own, notes = _python(None, python, cwd)
        return Target((own, "-m", module, *command), f"-m {module}", cwd, notes=notes)
    behind = command[1:2] if command[:1] == ("--",) else ()
    if any(word.endswith((".py", ".ipynb")) and not shutil.which(word) for word in behind):
        command = command[1:]  # no command of the shell's, but a script of Python's
    if not command:
        raise TrainperfError(
            "which script?",
            hint=f"trainperf {called} train.py, or: trainperf {called.split()[0]} --help",
        )
    if command == ("--",):
        raise TrainperfError("no command after `--`", hint=f"trainperf {called} -- torchrun …")
    if command[0] == "--":
        if python is not None:
            raise TrainperfError(
                f"--python has no place before `-- {command[1]}`", "put that Python on the PATH"
            )
        return Target(command[1:], " ".join(command[1:]), cwd)
    path = cwd / command[0]
    left_out = check_script(path, called, command)
    own, notes = _python(path, python, cwd)
    if is_notebook(path.name):  # it runs in its own folder, as Jupyter starts it
        words = (own, path.name, *command[1:])
        return Target(words, command[0], path.parent, path.name, (*notes, *left_out))
    return Target((own, *command), command[0], cwd, command[0], notes)


def _python(script: Path | None, given: Path | None, cwd: Path) -> tuple[str, tuple[str, ...]]:
    """The Python that runs a script, and what is to be said of it."""
    chosen, lacking = interpreter_for(script, given, cwd, os.environ)
    taken = f"run by {chosen.path}: {chosen.why}" if chosen.why else ""
    return chosen.path, tuple(filter(None, (taken, lacking)))


def running_target(pid: int) -> Target:
    """Make the command of a process that runs, as it can be run beside it.

    Raises `TrainperfError` if there is no such process, or its command cannot be run again.
    """
    from trainperf.commands.beside import startable
    from trainperf.run import running

    job = startable(running.read(pid))
    if job.script is not None:
        check_script(Path(job.script))
    return Target(job.command, job.label, Path(job.cwd), job.script, job=job)


def check_script(
    path: Path, called: str = "diagnose", command: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Refuse what Python could not run, before anything is started, with what to type instead.

    `command` are the words of the user's that begin with the script. Returns what is to be said
    of how a notebook is run: the first few commands that are left out.
    """
    ours, words = f"trainperf {called}", shlex.join(command)
    if (path / "__main__.py").exists():
        return ()
    if not path.exists():
        near = sorted(other.name for other in path.parent.glob(f"*{path.suffix or '.py'}"))
        hint = f"scripts in {path.parent}: {', '.join(near[:8])}" if near else "check the path"
        if re.fullmatch(r"python[\d.]*", path.name) and command[1:]:
            hint = f"the script alone: {ours} {shlex.join(command[1:])}"
        elif command[:1] == (path.name,) and path.name in LAUNCHERS:
            hint = f"a launcher goes behind `--`: {ours} -- {words}"
        raise TrainperfError(f"{path.name}: there is no such file", hint=hint)
    if not path.is_file():
        what = "a folder without __main__.py" if path.is_dir() else "no regular file"
        scripts = sorted(path.glob("*.py"), key=lambda script: ("train" not in script.name, script))
        named = f"{ours} {command[0].rstrip('/')}/{scripts[0].name}" if command and scripts else ""
        hint = f"name the script that trains{named and f': {named}'}"
        raise TrainperfError(f"{path.name} is {what}", hint=hint)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise TrainperfError(f"{path.name} cannot be read: {error.strerror}", "check it") from error
    if is_notebook(path.name):
        return _check_notebook(path.name, source)
    hint = f"for a shell script or another launcher: {ours} -- COMMAND"
    if path.suffix in (".sh", ".bash"):
        hint = f"a shell script goes behind `--`: {ours} -- bash {words or path.name}"
    _compile(source, path.name, hint)
    return ()


def _check_notebook(name: str, source: bytes) -> tuple[str, ...]:
    """Refuse a notebook whose cells a script could not run; say what is left out of it."""
    try:
        notebook = Notebook(source)
    except NotANotebook as error:
        text = f"{name} cannot be run as a notebook: {error}"
        hint = "it takes notebooks of Jupyter (nbformat 4) in Python"
        raise TrainperfError(text, hint) from error
    if not notebook.cells:
        raise TrainperfError(f"{name} has no cell with code", hint="name another notebook")
    cells = [(cell.number, cell.code) for cell in notebook.cells]
    for number, code in (*cells, (0, notebook.text)):
        _compile(code, name, "mend or empty the cell", number)
    named = [f"`{one_line(line)}` (cell {cell})" for cell, line in notebook.left_out]
    if not named:
        return ()
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    commands = f"{len(named)} command{'s' if len(named) > 1 else ''} to IPython"
    return (f"{commands} left out: {', '.join(named[:MOST_NAMED])}{more}",)


def _compile(code: bytes | str, name: str, hint: str, cell: int = 0) -> None:
    """Raise `TrainperfError` for what is not Python; of a notebook it is the code of a `cell`."""
    try:
        compile(code, f"<{name}>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line, shown = getattr(error, "lineno", None) or 0, getattr(error, "text", None) or ""
        place = f"line {line}" if line else ""
        if is_notebook(name):
            place = spot(name, cell * STRIDE + line)
        where = ", ".join(filter(None, (name, place)))
        said = ": ".join(filter(None, (str(getattr(error, "msg", error)), shown.strip())))
        raise TrainperfError(f"{where} is not valid Python: {said}", hint) from None


def run(
    target: Target,
    settings: Settings,
    console: Console,
    named: str = "",
    first: bool = True,
    pipeline: Pipeline | None = None,
) -> Saved:
    """Diagnose `target` with progress on `console`; save and return the diagnosis.

    `pipeline` is what else is to be made of the request, where it is no diagnosis. `named` is what
    its progress calls it, where not by its label; what is guarded is said where it is the `first`
    of several runs.
    """
    named = named or target.label
    swept = sweep(settings.output_dir)
    folder = new_folder(settings, target.label)
    covered = guarding.folders_of(target.cwd, target.script)
    guarded = guarding.probe(covered, folder, [folder])
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console, settings.quiet))
        seen = None
        if target.job is not None:
            from trainperf.commands.beside import environment_of, said, watch

            for sentence in said(target.job):
                progress.note(sentence)
            progress.phase("looking at the running job from outside")
            seen = watch(target.job)
            stack.enter_context(environment_of(target.job))
        request = _request(target, settings, folder, guarded.folders)
        for sentence in (*guarding.said(guarded), *target.notes) if first else ():
            progress.note(sentence)
        if swept:
            left = ", ".join(swept)
            progress.note(f"cleared what an earlier run had left, which was killed: {left}")
        progress.phase(f"{named}: starting")
        try:
            diagnosis, recording = (pipeline or run_diagnosis)(request, _Shown(progress, named))
        except TrainperfError:
            with suppress(OSError):
                folder.rmdir()  # where nothing was run
            raise
        if seen is not None:
            diagnosis = replace(diagnosis, running=seen())
        if settings.trace is not None:
            diagnosis = replace(diagnosis, trace=write_trace(recording, settings.trace))
    from trainperf.commands import redaction

    diagnosis = redaction.of_diagnosis(diagnosis)
    diagnosis = replace(diagnosis, notes=(*target.notes, *diagnosis.notes))
    recording = redaction.of_recording(recording)
    unsaved = _unsaved(diagnosis, folder / store.DIAGNOSIS_FILE, recording)
    return diagnosis, folder, unsaved


def _request(target: Target, settings: Settings, folder: Path, guarded: tuple[str, ...]) -> Request:
    """What is asked of a diagnosis; `guarded` are the folders that its runs see copy-on-write."""
    return Request(
        replace(run_of(target, settings), guarded=guarded),
        folder,
        settings.ignore,
        trials=settings.trials,
        sequential=settings.sequential,
        allow_semantic=settings.allow_semantic,
        only=settings.only,
        price_per_hour=settings.price_per_hour,
        full_run_s=settings.full_run_s,
    )


def _unsaved(
    diagnosis: Diagnosis, path: Path, recording: Recording | None = None
) -> TrainperfError | None:
    """Save a diagnosis, and its recording beside it; the error where that cannot be done."""
    try:
        store.save(diagnosis, path)
        if recording is not None:
            from trainperf.ranks import records

            store.save_recording(recording, path.with_name(store.RECORDING_FILE))
            records.clean(path.parent)
    except TrainperfError as error:
        return error
    return None


def from_trace(file: Path, settings: Settings) -> Saved:
    """Diagnose a trace of `torch.profiler`; raises `TrainperfError` where it cannot be judged."""
    from trainperf.commands import redaction
    from trainperf.diagnose.traced import diagnose_trace

    diagnosis = redaction.of_diagnosis(diagnose_trace(file, settings.ignore))
    folder = new_folder(settings, file.name)
    return diagnosis, folder, _unsaved(diagnosis, folder / store.DIAGNOSIS_FILE)


def write_trace(recording: Recording, file: Path) -> TraceFile:
    """Move the trace that the framework's tracer left to `file`, compressed for a name in `.gz`.

    Where there is none, or it cannot be written, the value says why.
    """
    import gzip

    from trainperf.child.timing.tracing import WHAT
    from trainperf.model import TraceFile

    traced = next(recording.of("traced_steps"), None)
    if traced is None:
        reason = "no training loop was seen"
        if any(recording.of("loop")):
            reason = "the run was over before its steps were traced"
        missing = (event for event in recording.of("missing") if event["what"] == WHAT)
        reason = next((str(event["reason"]) for event in missing), "") or reason
        return TraceFile(str(file), reason=reason)
    left = Path(traced["file"])
    try:
        data = left.read_bytes()
        store.write_whole(file, gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    except OSError as error:
        return TraceFile(str(file), reason=f"{file} cannot be written: {error.strerror}")
    finally:
        left.unlink(missing_ok=True)
    return TraceFile(str(file), steps=traced["steps"], note=traced["note"])


def run_of(target: Target, settings: Settings) -> Run:
    """Return the run of a target that settings describe."""
    return Run(
        command=target.command,
        cwd=str(target.cwd),
        label=target.label,
        measure_s=settings.measure_s,
        extra_s=settings.extra_s,
        stall_s=settings.stall_s,
        budget_s=settings.budget_s,
        trace=settings.trace is not None,
    )


def merge(folder: Path, output: Path | None, settings: Settings, console: Console) -> Saved:
    """Join the records of a job's ranks in `folder`; save the diagnosis there, or as `output`."""
    from trainperf.ranks.merge import merge as join

    with Progress(console, settings.quiet) as progress:
        progress.phase("reading the records")
        diagnosis = join(folder, settings.ignore, progress.advance)
    unsaved = _unsaved(diagnosis, output or folder / store.DIAGNOSIS_FILE)
    if unsaved is not None:
        unsaved.hint = "free some space, or choose another place with --output"
    return diagnosis, output or folder, unsaved


PHASES = {
    "warmup": "warming up until step times settle",
    "real": "timing the step as it is",
    "resident": "timing the step with free input",
    "input": "timing the input alone",
    "profile": "looking where the host's time goes",
    "stages": "taking the input pipeline apart",
    "facts": "reading the model",
    "probes": "trying the step in other ways",
    "trace": "tracing a few steps",
    "between": "watching what comes between epochs",
}


class _Shown:
    """Shows the events of a run as progress."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._progress = progress
        self._label = label
        self._phases: set[str] = set()

    def __call__(self, event: Event) -> None:
        """Take one event."""
        kind, expected_s, fraction = event["e"], None, None
        if kind == "import":
            text = f"{event['name']} {event['version']} is there; waiting for the first step"
        elif kind == "trial":
            text, expected_s, fraction = event["text"], event["expected_s"], event["fraction"]
        elif kind == "phase":
            phase = event["p"]
            text = PHASES.get(phase, str(phase))
            if phase == "real" and event["b"] == 0:
                expected_s = USUAL_S
            elif phase in ("real", "resident", "input"):
                text += f", round {event['b'] + 1}"
        else:
            return
        if expected_s is not None and text not in self._phases:
            self._phases.add(text)
            self._progress.phase(f"{self._label}: {text}", expected_s=expected_s)
        else:
            self._progress.say(f"{self._label}: {text}")
        if fraction is not None:
            self._progress.advance(fraction)
