"""Shared by the commands: arguments and options, settings, consoles, and what is told beside."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainperf.errors import TrainperfError
from trainperf.report.plain import no_commands, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from trainperf.settings import Settings

MAY_HAVE_VALUE = ("--against",)
"""Options that stand before `--` without their value as well."""


class ScriptCommand(click.Command):
    """A command whose arguments end where the user's command begins, as in `python`."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the marks in that tell `-m MODULE` and `-- COMMAND` from `SCRIPT`."""
        valued = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        return super().parse_args(ctx, _marked(args, valued))


def _marked(args: list[str], valued: set[str]) -> list[str]:
    index = 0
    while index < len(args):
        word = args[index]
        if word == "--":
            return [*args[:index], "--", "--", *args[index + 1 :]]
        if word == "-m" and index + 1 < len(args):
            return [*args[: index + 2], "--", *args[index + 2 :]]
        if not word.startswith("-") or word == "-":
            return args
        alone = word in MAY_HAVE_VALUE and args[index + 1 : index + 2] == ["--"]
        index += 2 if word in valued and not alone else 1
    return args


class Share(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 only
    """A share of 1: `10%` or `0.1`."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it; a figure above 1 without `%` is refused: 10 could mean either."""
        text = str(value).strip()
        try:
            number = float(text.rstrip("% ")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = -1.0
        if not 0 <= number <= (10 if text.endswith("%") else 1):
            self.fail(f"{text!r} is no share: write 10% or 0.1", param, ctx)
        return number


_SHARED = {
    "module": click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` "
                           "does."),
    "python": click.option("--python", metavar="PATH", help="The Python that runs the script, or "
                           "its environment [default: the active one, a .venv, trainperf's own]."),
    "budget": click.option("--budget", metavar="TIME", help="What all of it may take: 90s, 3min "
                           "[default: 3min]."),
    "sequential": click.option("--sequential", is_flag=True, default=None, help="Try in fresh "
                               "processes, one after another, not side by side."),
    "stall": click.option("--stall", metavar="TIME", help="Give a run up that shows no sign of "
                          "progress for so long [default: 5min]."),
    "price": click.option("--price-per-hour", metavar="USD", help="What one host costs, US dollars "
                          "an hour, for the cost of an epoch."),
    "json": click.option("--json", "json", metavar="FILE", help="Write the whole diagnosis as "
                         "JSON."),
    "output_format": click.option("--output-format", multiple=True, metavar="FORMAT[=FILE]",
                                  help="Print the report in a format, or write it to a file: "
                                  "terminal, json, markdown, html, github, sarif; may be "
                                  "repeated."),
    "patch": click.option("--patch", metavar="FILE", help="Write the fixes as a diff for `git "
                          "apply`."),
    "output_dir": click.option("--output-dir", metavar="DIR", help="Keep runs here [default: "
                               "~/.cache/trainperf/runs]."),
    "fail_on": click.option("--fail-on", metavar="WHAT", help="Exit with 1 on any `finding`, or on "
                            "one worth at least e.g. `1.2` times."),
    "ignore": click.option("--ignore", multiple=True, metavar="FIX", help="Leave a finding out, by "
                           "its id."),
    "full": click.option("--full", is_flag=True, default=None, help="Print every section of the "
                         "report."),
    "quiet": click.option("-q", "--quiet", is_flag=True, default=None, help="Print no progress."),
}  # fmt: skip
"""The options that several commands have, by the names that they are asked for by."""


def options(*wanted: Any) -> Callable[[Any], Any]:
    """Give a command options in this order of its help: shared ones by name, others as they are."""

    def give(command: Any) -> Any:
        for option in reversed(wanted):
            command = (_SHARED[option] if isinstance(option, str) else option)(command)
        return command

    return give


def read_settings(flags: dict[str, Any]) -> Settings:
    """The settings for the current folder, with the `flags` that were given over them."""
    from trainperf.settings import load_settings

    given = {name: value for name, value in flags.items() if value not in (None, ())}
    settings = load_settings(Path.cwd(), os.environ, given)
    named = [(settings.ignore, "to ignore"), (settings.only, "to try")]
    for ids, wanted in named if settings.ignore or settings.only else ():
        from trainperf.fixes import by_id

        for unknown in (id_ for id_ in ids or () if id_ not in by_id()):
            meant = f"; {did_you_mean(unknown, by_id())}".rstrip("; ")
            tell(f"trainperf: there is no finding {unknown!r} {wanted}{meant}")
    return settings


def did_you_mean(word: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """Ask for what is spelled like a word that is not known, with a blank behind; "" for none."""
    import difflib

    near = difflib.get_close_matches(word, list(known), most, cutoff)
    return f"did you mean {' or '.join(near)}? " if near else ""


def console(stderr: bool = False) -> Console:
    """A console on stdout or stderr."""
    from rich.console import Console

    class Reported(Console):
        """One that does not exit where nobody reads on: files are still to be written."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Reported(stderr=stderr, highlight=False)


def check_whole_job(command: Sequence[str], called: str) -> None:
    """Refuse to be one of several ranks: the command starts the whole job."""
    from trainperf import ranks

    if ranks.find(os.environ) is not None:
        raise TrainperfError(
            f"a {called} is not made rank by rank",
            hint=f"let it start the launcher: trainperf {called} --… -- torchrun …",
        )
    ranks.check_alone(command, os.environ)


def tell(text: str, err: bool = True) -> None:
    """Print a line: whatever is quoted in it stays within it, and does nothing there."""
    click.echo(no_commands(one_line(text)), err=err)


def close_stdout() -> None:
    """Flush stdout; from here on what is printed goes nowhere, where that cannot be done.

    Raises `OSError`, not `BrokenPipeError`: who closed the pipe has read all that was wanted.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        silence()
        if not isinstance(error, BrokenPipeError):
            raise


def silence() -> None:
    """Have what is printed go nowhere: the pipe is closed, or the disk is full."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
