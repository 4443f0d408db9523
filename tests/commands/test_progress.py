"""Progress is seen by people only, and never on stdout."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from trainperf.commands.progress import Progress


def console(terminal: bool, file: io.StringIO | None = None) -> Console:
    return Console(file=file or io.StringIO(), force_terminal=terminal, width=80, color_system=None)


def written(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def line(progress: Progress, width: int = 80) -> str:
    """The line as it would be drawn now."""
    paper = Console(file=io.StringIO(), width=width, color_system=None)
    paper.print(progress, end="")
    return written(paper)


def test_a_short_phase_is_not_written_into_a_pipe() -> None:
    pipe = console(terminal=False)
    with Progress(pipe) as progress:
        progress.phase("Warming up", 5)
        progress.advance(0.5)
    assert written(pipe) == ""


def test_a_log_says_now_and_then_what_it_is_at(monkeypatch) -> None:
    monkeypatch.setattr("trainperf.commands.progress.LOG_S", 0.01)
    pipe = console(terminal=False)
    with Progress(pipe) as progress:
        progress.phase("train.py: warming up", 5)
        while "warming" not in written(pipe):
            time.sleep(0.01)
    assert written(pipe).startswith("trainperf: 0 s: train.py: warming up\n")


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_writes_nothing_at_all(terminal: bool) -> None:
    on = console(terminal)
    with Progress(on, quiet=True) as progress:
        progress.phase("Warming up", 5)
        progress.note("something")
    assert written(on) == ""


def test_a_note_is_written_into_a_pipe_once_as_one_line() -> None:
    pipe = console(terminal=False)
    with Progress(pipe) as progress:
        progress.note("the folder\ncannot be [bold]guarded[/bold]\x1b[31m")
        progress.note("the folder\ncannot be [bold]guarded[/bold]\x1b[31m")
    assert written(pipe) == "trainperf: the folder cannot be [bold]guarded[/bold]\n"


def test_a_terminal_is_shown_the_phase_and_left_clean() -> None:
    on = console(terminal=True)
    with Progress(on) as progress:
        progress.phase("Timing the steps", 5)
        assert progress._live is not None
        progress._live.refresh()
    text = written(on)
    assert "Timing the steps" in text
    assert "\n" not in text
    after = text.rpartition("left")[2]
    assert "\x1b[2K" in after  # the line is erased
    assert "\x1b[?25h" in after  # the cursor is back
