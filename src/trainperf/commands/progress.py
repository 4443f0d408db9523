"""The progress, for a person who waits: one line on stderr, gone when done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from trainperf.report.plain import one_line

if TYPE_CHECKING:
    from rich.live import Live

_WHEEL = "-\\|/"
_BAR = 20
LOG_S = 10.0
"""Between two lines in a log."""
_ENOUGH = 0.05  # of a phase done: below this its pace says nothing about its end


class Progress:
    """Shows the phase of the work, how far it is and how long still.

    Where `console` (one that writes to stderr) is no terminal, what it is at is written as a line
    every ten seconds. Notes are lines that stay. With `quiet`, nothing at all. Never fails: where
    stderr is gone, it falls silent.
    """

    def __init__(
        self, console: Console, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._quiet = quiet
        self._clock = clock
        self._noted: set[str] = set()
        self._live: Live | None = None
        self._text = ""
        self._began = self._started = clock()
        self._expected_s: float | None = None
        self._fraction: float | None = None
        self._over = threading.Event()

    def __enter__(self) -> Progress:
        if self._quiet:
            return self
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(
                self,
                console=self._console,
                transient=True,
                refresh_per_second=8,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._safely(self._live.start)
        else:
            threading.Thread(target=self._log, name="trainperf-progress", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._text = ""
        if self._live is not None:
            self._safely(self._live.stop)
            self._live = None

    def phase(self, text: str, expected_s: float | None = None) -> None:
        """Begin a phase, named in a few words, that takes `expected_s` seconds or so."""
        self._text, self._expected_s = one_line(text), expected_s
        self._started, self._fraction = self._clock(), None

    def say(self, text: str) -> None:
        """Say what the phase is at now; its time goes on."""
        self._text = one_line(text)

    def advance(self, fraction: float) -> None:
        """Say how much of the phase is done, 0 to 1; without it, time tells."""
        self._fraction = min(1.0, max(0.0, fraction))

    def note(self, text: str) -> None:
        """Write a line that stays; the same one is written once only."""
        if not self._quiet and text not in self._noted:
            self._noted.add(text)
            self._print(f"trainperf: {one_line(text)}")

    def _log(self) -> None:
        """Write what it is at every ten seconds, until it is over: for logs of CI."""
        while not self._over.wait(LOG_S):
            if self._text:
                after = self._clock() - self._began
                self._print(f"trainperf: {after:.0f} s: {self._text}")

    def _print(self, text: str) -> None:
        self._safely(lambda: self._console.print(Text(text), soft_wrap=True, highlight=False))

    def _safely(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (OSError, ValueError):  # stderr was closed, or its terminal is gone
            self._quiet = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the line as it is now; it never takes more than one."""
        if not self._text:
            return
        line = Text(no_wrap=True, overflow="crop", end="")
        elapsed = self._clock() - self._started
        line.append(f"{_WHEEL[int(elapsed * 8) % len(_WHEEL)]} {self._text}  ")
        done, left = self._fraction, None
        if self._expected_s:
            done = min(1.0, elapsed / self._expected_s) if done is None else done
            left = self._expected_s - elapsed
        if self._fraction is not None and self._fraction >= _ENOUGH:
            left = elapsed / self._fraction * (1 - self._fraction)
        if done is not None and options.max_width >= 60:
            full, empty = "━─" if options.encoding.startswith("utf") else "=-"
            columns = round(done * _BAR)
            line.append(full * columns, "cyan").append(empty * (_BAR - columns), "dim")
        times = f"  {elapsed:.0f} s"
        if left is not None:
            known = f"about {max(1, round(left))} s left"
            times += f", {known if left > 0 else 'longer than expected'}"
        line.append(times, "dim")
        if options.max_width >= 100:
            line.append("  (Ctrl-C: report what is known)", "dim")
        line.truncate(options.max_width, overflow="crop")
        yield line
