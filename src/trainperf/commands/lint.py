"""`trainperf lint PATH…`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from trainperf.commands import outputs
from trainperf.commands._shared import read_settings


@click.command(short_help="Say what may be slow, from source alone.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…",
                type=click.Path(exists=True, path_type=Path))  # fmt: skip
@click.option("--output-format", multiple=True, metavar="FORMAT[=FILE]", help="Print text, json "
              "or github, or write it to a file; may be repeated [default: text].")  # fmt: skip
def lint(paths: tuple[Path, ...], output_format: tuple[str, ...]) -> None:
    """Say what may be slow in Python files and notebooks, from their source alone.

    Nothing is imported or run, so nothing is measured: each line says what was seen and
    why it may be slow. `trainperf diagnose` tells whether it is.

    A comment `# trainperf: ignore[ID]` turns a place off; `ignore` of [tool.trainperf]
    in pyproject.toml turns a rule off.

    Exit status: 0 nothing found, 1 something found, 2 wrong usage, or a file that could
    not be read or parsed (the others are checked even so).
    """
    from trainperf.lint.check import lint as check
    from trainperf.lint.formats import FORMATS
    from trainperf.lint.rules import all_rules

    wanted = outputs.parse(output_format, tuple(FORMATS), "text", beside=())
    outputs.check((output.format, output.file) for output in wanted)
    root = outputs.repository(os.getcwd()) if output_format else ""
    ignored = read_settings({}).ignore
    found = check(paths, tuple(rule for rule in all_rules() if rule.id not in ignored))
    for output in wanted:
        text = FORMATS[output.format](found, root)
        if output.file is None:
            click.echo(text)
        else:
            outputs.save(output.file, outputs.encoded(text))
    sys.exit(2 if found.unread else int(bool(found.seen)))
