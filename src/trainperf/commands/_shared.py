"""Shared by the commands: settings, consoles, what is told beside a report, and its printing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainperf.commands.streams import tell
from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from rich.console import Console

    from trainperf.model import Diagnosis
    from trainperf.settings import Settings


def read_settings(flags: dict[str, Any]) -> Settings:
    """The settings for the current folder, with the `flags` that were given over them."""
    import difflib

    from trainperf.settings import load_settings

    given = {name: value for name, value in flags.items() if value not in (None, ())}
    settings = load_settings(Path.cwd(), os.environ, given)
    named = [(settings.ignore, "to ignore"), (settings.only, "to try")]
    for ids, wanted in named if settings.ignore or settings.only else ():
        from trainperf.fixes import by_id

        for unknown in (id_ for id_ in ids or () if id_ not in by_id()):
            near = difflib.get_close_matches(unknown, by_id(), n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            tell(f"trainperf: there is no finding {unknown!r} {wanted}{meant}")
    return settings


def console(stderr: bool = False) -> Console:
    """A console on stdout or stderr."""
    from rich.console import Console

    class Reported(Console):
        """One that does not exit where nobody reads on: files are still to be written."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Reported(stderr=stderr, highlight=False)


def check_outputs(
    settings: Settings,
    inputs: Sequence[str] = (),
    traces: bool = False,
    saved: Path | None = None,
) -> None:
    """Raise `TrainperfError` where a report could not be written: before a run of minutes.

    So where a file cannot be written, where two of them are one, and where one would take the
    place of a source or of what `inputs`, words of a command, name. With `traces` the same of its
    trace; `saved` is a baseline.
    """
    from trainperf.commands.outputs import check, parse

    named = [("the baseline", saved), ("--json", settings.json), ("--patch", settings.patch)]
    named += [("--trace", settings.trace if traces else None)]
    check([*named, *((one.format, one.file) for one in parse(settings.output_format))], inputs)


def check_whole_job(command: Sequence[str], called: str) -> None:
    """Refuse to be one of several ranks: the command starts the whole job."""
    from trainperf import ranks

    if ranks.find(os.environ) is not None:
        raise TrainperfError(
            f"a {called} is not made rank by rank",
            hint=f"let it start the launcher: trainperf {called} --… -- torchrun …",
        )
    ranks.check_alone(command, os.environ)


def exit_status(diagnosis: Diagnosis, fail_on: str | float = "none") -> int:
    """Return what the process exits with.

    0 done, 1 `--fail-on` met, 2 no loop seen or no step of it timed, 3 the script
    failed, 130 interrupted.
    """
    from trainperf.recording.run import Ending
    from trainperf.report.level import failing

    if diagnosis.ending in (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED):
        return 3
    if diagnosis.ending is Ending.INTERRUPTED:
        return 130
    if diagnosis.loop is None or diagnosis.step_s is None:
        return 2
    if diagnosis.trying is not None and diagnosis.trying.interrupted:
        return 130
    return 1 if failing(diagnosis, fail_on) else 0


def end_with_report(
    diagnosis: Diagnosis, path: Path, unsaved: TrainperfError | None, settings: Settings
) -> int:
    """Print the report of the run at `path`, write what was asked for; return the exit status.

    Raises `unsaved`, the error where the run could not be saved, once the report is shown.
    """
    from trainperf.commands import run_folders

    saved = "" if unsaved else run_folders.saved_name(path)
    print_report(diagnosis, settings, saved, str(settings.patch or ""))
    if unsaved is not None:
        raise unsaved
    run_folders.write_outputs(diagnosis, settings)
    return exit_status(diagnosis, settings.fail_on)


def print_report(
    diagnosis: Diagnosis, settings: Settings, saved: str = "", patch_file: str = ""
) -> None:
    """Write the report to stdout, and everywhere else it was asked for."""
    from trainperf.commands.outputs import parse, write

    write(diagnosis, parse(settings.output_format), settings, console, saved, patch_file)
