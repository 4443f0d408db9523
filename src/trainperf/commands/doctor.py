"""`trainperf doctor`: the examination of the machine, and the self-test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from rich.console import Console

HOLDS, DOES_NOT, UNKNOWN = 0, 1, 2


def examine(console: Console) -> None:
    """Print what the machine is, and what does not fit."""
    from trainperf.machine.doctor.examine import examine as look
    from trainperf.machine.doctor.view import render

    render(look(), console)


def self_test(
    framework: str | None, json: Path | None, quiet: bool, console: Callable[..., Console]
) -> int:
    """Run the self-test with progress, print its lines; return the exit status.

    Raises `TrainperfError` where there is nothing to test with, or `json` cannot be written.
    """
    from trainperf.commands.progress import Progress
    from trainperf.machine.doctor.view import render_lines
    from trainperf.self_test import self_test as run
    from trainperf.self_test.judging import as_json

    if json is not None and not json.absolute().parent.is_dir():
        raise TrainperfError(f"there is no folder {json.absolute().parent}", "check the path")
    with Progress(console(stderr=True), quiet) as progress:
        progress.phase("self-test", expected_s=100.0)
        test = run(lambda text: progress.say(f"self-test: {text}"), framework)
    out = console()
    render_lines(test.lines, out)
    style = {True: "green", False: "bold red", None: "yellow"}[test.holds]
    out.print(f"{test.conclusion} ({test.seconds:.0f} s)", style=style)
    if json is not None:
        try:
            json.write_text(as_json(test), encoding="utf-8")
        except OSError as error:
            raise TrainperfError(
                f"cannot write {json}: {error.strerror}", "check the path"
            ) from error
    if test.holds is None:
        return UNKNOWN
    return HOLDS if test.holds else DOES_NOT
