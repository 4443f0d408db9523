"""Arguments that end where the user's command begins, and values that options share."""

from __future__ import annotations

from typing import Any

import click

MAY_HAVE_VALUE = ("--against",)
"""Options that stand before `--` without their value as well."""


class ScriptCommand(click.Command):
    """A command whose arguments end where the user's command begins, as in `python`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the marks in that tell `-m MODULE` and `-- COMMAND` from `SCRIPT`."""
        return super().parse_args(ctx, _marked(args, self._valued()))

    def _valued(self) -> set[str]:
        return {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }


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


output_format = click.option(
    "--output-format",
    multiple=True,
    metavar="FORMAT[=FILE]",
    help="Print the report in a format, or write it to a file: terminal, json, markdown, html, "
    "github, sarif, junit; may be repeated.",
)
