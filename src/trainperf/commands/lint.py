"""`trainperf lint PATH…`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from trainperf.lint.rules import Rule


@click.command(short_help="Say what may be slow, from source alone.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…",
                type=click.Path(exists=True, path_type=Path))  # fmt: skip
@click.option("--output-format", multiple=True, metavar="FORMAT[=FILE]", help="Print text, json, "
              "github or sarif, or write it to a file; may be repeated "
              "[default: text].")  # fmt: skip
@click.option("--select", multiple=True, metavar="IDS", help="Look for these only: ids, with "
              "commas between them.")  # fmt: skip
@click.option("--ignore", multiple=True, metavar="IDS", help="Do not look for these.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 although something was found.")
def lint(
    paths: tuple[Path, ...],
    output_format: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    exit_zero: bool,
) -> None:
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

    wanted: list[tuple[str, Path | None]] = [("text", None)]
    root = ""
    if output_format:  # these load a good deal
        from trainperf.commands import outputs

        parsed = outputs.parse(output_format, tuple(FORMATS), "text", beside=())
        outputs.check((one.format, one.file) for one in parsed)
        wanted = [(one.format, one.file) for one in parsed]
        root = outputs.repository(os.getcwd())
    found = check(paths, _chosen(select, ignore))
    for form, file in wanted:
        text = FORMATS[form](found, root)
        if file is None:
            click.echo(text)
        else:
            outputs.save_text(file, text)
    if found.unread:
        sys.exit(2)
    sys.exit(1 if found.seen and not exit_zero else 0)


def _chosen(select: tuple[str, ...], ignore: tuple[str, ...]) -> tuple[Rule, ...]:
    from trainperf.commands._shared import read_settings
    from trainperf.lint.rules import all_rules

    rules = all_rules()
    known = {rule.id for rule in rules}
    wanted = _ids(select, "--select", known) or known
    unwanted = {*_ids(ignore, "--ignore", known), *read_settings({}).ignore}
    return tuple(rule for rule in rules if rule.id in wanted - unwanted)


def _ids(given: tuple[str, ...], option: str, known: set[str]) -> set[str]:
    listed = [each.strip() for one in given for each in one.split(",")]
    ids = {each.replace("-", "_") for each in listed if each}
    for each in sorted(ids - known):
        from trainperf.fixes import by_id

        if each not in by_id():
            raise TrainperfError(f"{option}: there is no {each}", "trainperf explain lists the ids")
        if option == "--select":
            hint = "`trainperf diagnose` looks for it in a run"
            raise TrainperfError(f"{option}: source alone does not tell {each}", hint)
    return ids
