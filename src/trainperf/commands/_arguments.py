"""Arguments that end where the user's command begins."""

from __future__ import annotations

import click


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
        index += 2 if word in valued else 1
    return args


output_format = click.option(
    "--output-format",
    multiple=True,
    metavar="FORMAT[=FILE]",
    help="Print the report in a format, or write it to a file: terminal, json, markdown, html, "
    "github, sarif, junit; may be repeated.",
)
