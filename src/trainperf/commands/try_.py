"""`trainperf try CHANGE… -- SCRIPT`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainperf.commands import outputs
from trainperf.commands._shared import (
    ScriptCommand,
    check_whole_job,
    console,
    options,
    read_settings,
)
from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from trainperf.changes import Change

CHANGE = (
    click.option(
        "--diff",
        "diffs",
        multiple=True,
        metavar="FILE",
        help="A diff of files, as git makes it; `-` reads it.",
    ),
    click.option("--file", metavar="OTHER.py", help="Another file in the place of the script."),
    click.option("--rev", metavar="REV", help="The files as they are in a git revision."),
    click.option(
        "--set", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument of the script."
    ),
    click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable."),
    click.option("--python", metavar="INTERPRETER", help="Another Python to run the script."),
    click.option("--fix", "fixes", multiple=True, metavar="ID", help="A fix of trainperf's."),
)
"""The options that make a change; those given together are one."""


@click.command(
    name="try",
    cls=ScriptCommand,
    options_metavar="[CHANGE…] [OPTIONS]",
    short_help="Prove a change of yours on the script: faster, slower, or neither.",
)
@options(*CHANGE)
@click.option("--change", "named", multiple=True, metavar="NAME='CHANGE…'", help="A change with a "
              "name, to be tried beside others: fast='--diff a.diff --env X=1'.")  # fmt: skip
@click.option("--at-least", type=click.FloatRange(min=1.0), default=1.0, metavar="RATIO",
              help="Ask for so much, such as 1.05.")  # fmt: skip
@click.option("--allow-semantic", is_flag=True, default=None, help="A change that trains "
              "something else may be proved as well.")  # fmt: skip
@options("module", "budget", "sequential", "stall", "price", "json", "output_format", "output_dir")
@options("full", "quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- SCRIPT [ARGS]…")
def try_(
    command: tuple[str, ...],
    module: str | None,
    named: tuple[str, ...],
    at_least: float,
    **flags: Any,
) -> None:
    """Prove a change of yours by experiment.

    \b
    trainperf try --diff change.diff -- train.py --epochs 3
    trainperf try --set num_workers=4 --env OMP_NUM_THREADS=1 -- train.py
    trainperf try --rev HEAD~3 -- train.py
    trainperf try --change a='--diff a.diff' --change b='--diff b.diff' -- train.py

    The script as it is, itself as control, and the change run in turns, from the same seed, and
    their losses are compared. Options given together are one change. Nothing of yours is
    written, and no work tree is made.

    Exit status: 0 faster and the same training, 1 not faster, 2 wrong usage or it cannot be told,
    3 the script failed, as it is or with the change.
    """
    from trainperf import proof
    from trainperf.changes import Change
    from trainperf.commands import session

    parts = {field.name: flags.pop(field.name) for field in fields(Change) if field.name in flags}
    changes = [_change(parts), *map(_named, named)]
    changes = [change for change in changes if change.title]
    if not changes:
        raise TrainperfError(
            "which change?", hint="trainperf try --diff change.diff -- train.py, or: --help"
        )
    if len({change.title for change in changes}) < len(changes):
        raise TrainperfError("two changes have one name", "name each: --change NAME='…'")
    settings = read_settings(flags)
    inputs = [*command, *(path for one in changes for path in (*one.diffs, one.file or ""))]
    outputs.check_outputs(settings, inputs)
    target = session.target(module, command, Path.cwd(), "try --diff FILE", settings.python)
    check_whole_job(target.command, "try")

    diagnosis, folder, unsaved = session.run(
        target,
        settings,
        console(stderr=True),
        pipeline=partial(proof.try_changes, changes=changes, at_least=at_least),
    )
    status = outputs.end_with_report(diagnosis, folder, unsaved, settings)
    sys.exit(status or (proof.exit_status(diagnosis.proofs) if diagnosis.proofs else 2))


def _named(text: str) -> Change:
    name, equals, change = text.partition("=")
    if not (equals and re.fullmatch(r"[\w.-]+", name)):
        raise TrainperfError(
            f"--change {text}: a name is missing", "write --change NAME='--diff a.diff'"
        )
    parser = options(*CHANGE)(click.Command("change", callback=lambda **parts: parts))
    try:
        words = shlex.split(change)
        parts = parser.main(words, prog_name=f"--change {name}", standalone_mode=False)
    except ValueError as error:
        raise TrainperfError(f"--change {text}: {error}", "quote it as in a shell") from error
    return _change(parts, name)


def _change(parts: Mapping[str, Any], name: str = "") -> Change:
    from trainperf.changes import Change

    fixes = tuple(fix.replace("-", "_") for fix in parts["fixes"])
    change = Change(**{**parts, "fixes": fixes, "name": name})
    if name and change == Change(name=name):
        raise TrainperfError(f"--change {name} has no change in it", "write --diff FILE, say")
    return change
