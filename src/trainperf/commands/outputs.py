"""Where a report goes, as `--output-format FORMAT[=FILE]` and others ask, and the exit status."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainperf.commands import run_folders
from trainperf.commands._shared import close_stdout, console, did_you_mean, silence
from trainperf.errors import TrainperfError
from trainperf.report.plain import no_commands
from trainperf.reporters import reporter

if TYPE_CHECKING:
    from rich.console import Console

    from trainperf.model import Diagnosis
    from trainperf.report.level import Judgement
    from trainperf.settings import Settings

DOCUMENTS = ("json", "markdown", "html", "sarif")
"""Formats of which each is a whole: two of them on one stream are neither."""

FORMATS = ("terminal", *DOCUMENTS, "github")

SOURCES = (".py", ".ipynb")
"""No report is written over a file of such a name."""

_COLUMNS = 100
"""Width of a terminal report in a file."""


@dataclass(frozen=True)
class Output:
    """A format of the report, and the file it goes to; None for stdout."""

    format: str
    file: Path | None = None


GITHUB = Output("github")


def parse(
    values: Sequence[str],
    formats: Sequence[str] = FORMATS,
    default: str = "terminal",
    beside: Sequence[str] = ("github",),
) -> tuple[Output, ...]:
    """Return what `--output-format` asks for; the terminal's report where nothing takes stdout.

    `formats` are those that there are, `default` is what is printed if nothing else is, and
    `beside` go to stdout with another. Raises `TrainperfError` for a format that there is none
    of, and for two that would mix on stdout. Looks at nothing on disk: see `check`.
    """
    wanted = tuple(dict.fromkeys(_output(value, formats) for value in values))
    mixing = [one.format for one in wanted if one.file is None and one.format not in beside]
    if len(mixing) > 1:
        first, second = mixing[:2]
        which = second if second != default else first
        raise TrainperfError(
            f"{first} and {second} would both go to stdout",
            hint=f"name a file for one of them: --output-format {which}=FILE",
        )
    return wanted if mixing else (Output(default), *wanted)


def _output(value: str, formats: Sequence[str]) -> Output:
    name, given, file = value.partition("=")
    name = name.strip().lower()
    if name not in formats:
        hint = f"{did_you_mean(name, formats)}choose from {', '.join(formats)}"
        raise TrainperfError(f"there is no format {name!r} of the report", hint)
    if given and not file:
        raise TrainperfError(
            f"--output-format {value}: no file is named", hint=f"--output-format {name}=FILE"
        )
    return Output(name, Path(file).expanduser() if file and file != "-" else None)


def check_outputs(
    settings: Settings, inputs: Sequence[str] = (), *others: tuple[str, Path | None]
) -> None:
    """Raise `TrainperfError` where a report, or one of the `others`, cannot be written: `check`."""
    named = [*others, ("--json", settings.json), ("--patch", settings.patch)]
    named += [(output.format, output.file) for output in parse(settings.output_format)]
    check(named, inputs)


def check(named: Iterable[tuple[str, Path | None]], inputs: Iterable[str] = ()) -> None:
    """Raise `TrainperfError` where a file cannot be written: before a run that takes minutes.

    So as well where two of what is to be written would go to one file, and where one would
    replace a source, or what one of the `inputs`, words of a command, names.
    """
    kept = {os.path.realpath(name) for name in inputs if os.path.isfile(name)}
    taken: dict[str, str] = {}
    for what, file in named:
        if file is None:
            continue
        path, wrong = os.path.realpath(file), ""
        target = file if file.exists() and not file.is_file() else Path(path).parent
        if path in kept or (file.is_file() and file.suffix in SOURCES):
            wrong = f"{what} would overwrite {file}"
        elif path in taken and not path.startswith("/dev/"):
            wrong = f"{taken[path]} and {what} would both go to {file}"
        elif file.is_dir():
            wrong = f"{file} is a folder"
        elif not file.parent.is_dir():
            wrong = f"there is no folder {file.parent} to write {file.name} to"
        elif not os.access(target, os.W_OK):
            wrong = f"{target} cannot be written to"
        if wrong:
            raise TrainperfError(wrong, hint="name another file for it")
        taken[path] = what


def takes_stdout(settings: Settings) -> bool:
    """Whether a document goes to stdout, so that nothing else may."""
    wanted = parse(settings.output_format)
    return any(output.file is None and output.format in DOCUMENTS for output in wanted)


def write(
    diagnosis: Diagnosis,
    outputs: Sequence[Output],
    settings: Settings,
    saved: str = "",
    patch_file: str = "",
    judgement: Judgement | None = None,
    env: Mapping[str, str] = os.environ,
) -> None:
    """Write a report to everywhere it was asked for.

    First what goes to stdout, then the files, then GitHub's commands. `saved` and `patch_file` are
    as in the terminal's report, `judgement` is that of a check. Raises `TrainperfError` for what
    could not be written, when all else is.
    """
    from trainperf.report.level import Judgement

    links = {"saved": saved, "patch_file": patch_file}
    judgement = judgement or Judgement(settings.fail_on)
    report = _Report(diagnosis, judgement, links, settings.full, env)
    failures: list[TrainperfError] = []
    for output in sorted(outputs, key=lambda output: (output == GITHUB, output.file is not None)):
        acts = [report.print if output.file is None else report.save]
        if output == GITHUB and env.get("GITHUB_STEP_SUMMARY"):
            acts.insert(0, report.summarise)
        for act in acts:
            try:  # one file that cannot be written must not cost the others
                act(output)
            except TrainperfError as error:
                failures.append(error)
    if failures:
        raise failures[0]


@dataclass(frozen=True)
class _Report:
    diagnosis: Diagnosis
    judgement: Judgement
    links: dict[str, str]
    full: bool
    env: Mapping[str, str]

    def terminal(self, console: Console) -> None:
        reporter("terminal")(self.diagnosis, console, **self.links, full=self.full)

    def text(self, name: str, **options: Any) -> str:
        if name == "terminal":
            from rich.console import Console

            page = io.StringIO()
            self.terminal(Console(file=page, width=_COLUMNS, color_system=None))
            return page.getvalue()
        if name != "json":
            root = {"root": repository(self.diagnosis.cwd, self.env)}
            options |= {"judgement": self.judgement, **(self.links if name == "html" else root)}
        if name == "sarif":
            options["suppressed"] = "GITHUB_ACTIONS" not in self.env
        return reporter(name)(self.diagnosis, **options) or ""

    def print(self, output: Output) -> None:
        """Print it as far as it is read; raises `TrainperfError` for a disk that is full."""
        try:
            if output.format != "terminal":
                click.echo(encoded(self.text(output.format)), nl=False)
            elif not os.environ.get("GITHUB_ACTIONS"):
                self.terminal(console())
            else:  # whatever the report quotes stands in a log in which lines may be commands
                shown = console()
                with shown.capture() as captured:
                    self.terminal(shown)
                click.echo(no_commands(captured.get()), nl=False)
            close_stdout()
        except BrokenPipeError:
            silence()
        except OSError as error:
            silence()
            raise TrainperfError(
                f"cannot write to standard output: {error.strerror}",
                hint="free some space, or write the report to a file: --output-format FORMAT=FILE",
            ) from error

    def save(self, output: Output) -> None:
        assert output.file is not None
        save(output.file, encoded(self.text(output.format)))

    def summarise(self, output: Output) -> None:
        """Add the report to the summary of the step, which other commands may have begun."""
        from trainperf.reporters.markdown import SUMMARY_LIMIT

        path = Path(self.env["GITHUB_STEP_SUMMARY"])
        try:
            there = path.stat().st_size if path.exists() else 0
            text = self.text("markdown", limit=SUMMARY_LIMIT - there - 1)
            with path.open("ab") as file:
                file.write(encoded(text))
        except OSError as error:
            raise TrainperfError(
                f"cannot write the summary of the step, {path}: {error.strerror}",
                hint="GITHUB_STEP_SUMMARY names that file; without it no summary is written",
            ) from error


def repository(folder: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the root of the repository that a folder lies in; the folder itself, if in none."""
    here = Path(os.path.abspath(folder))
    folders, workspace = (here, *here.parents), env.get("GITHUB_WORKSPACE", "")
    checked_out = [one for one in folders if str(one) in (workspace, os.path.realpath(workspace))]
    within = checked_out if workspace else []
    within += [one for one in folders if (one / ".git").exists()]
    return str(within[0]) if within else folder


def encoded(text: str) -> bytes:
    """The text in UTF-8, with a newline at its end; "?" for what UTF-8 cannot hold."""
    text = text if text.endswith("\n") or not text else f"{text}\n"
    return text.encode("utf-8", "replace")


def save(path: Path, data: bytes) -> None:
    """Write a file: whole, or not at all. Raises `TrainperfError` where that cannot be done."""
    from trainperf import store

    try:
        store.write_whole(path, data)
    except OSError as error:
        raise TrainperfError(
            f"cannot write {path}: {error.strerror}", hint="free some space, or name another file"
        ) from error


def write_outputs(diagnosis: Diagnosis, settings: Settings) -> None:
    """Write the JSON report and the patch where asked for."""
    from trainperf import store

    if settings.json is not None:
        store.save(diagnosis, settings.json)
    if settings.patch is not None:
        diff = diagnosis.patch.diff if diagnosis.patch else ""
        save(settings.patch, diff.encode("utf-8", "surrogateescape"))


def exit_status(diagnosis: Diagnosis, fail_on: str | float = "none") -> int:
    """Return what the process exits with.

    0 done, 1 `--fail-on` met, 2 no loop seen or no step of it timed, 3 the script
    failed, 130 interrupted.
    """
    from trainperf.recording.run import Ending
    from trainperf.report.level import failing

    if diagnosis.ending.badly:
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
    saved = "" if unsaved else run_folders.saved_name(path)
    wanted = parse(settings.output_format)
    write(diagnosis, wanted, settings, saved, str(settings.patch or ""))
    if unsaved is not None:
        raise unsaved
    write_outputs(diagnosis, settings)
    return exit_status(diagnosis, settings.fail_on)
