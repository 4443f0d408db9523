"""Arguments that end where the user's command begins, and values that options share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

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


def options(*names: str) -> Callable[[Any], Any]:
    """Give a command options that others have as well, in this order in its help."""

    def give(command: Any) -> Any:
        for name in reversed(names):
            command = _SHARED[name](command)
        return command

    return give
