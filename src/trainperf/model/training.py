"""The whole training, from the start of the script to its last step: how long, now and after."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from trainperf.model.basics import Site

Part = Literal["start", "compiling", "steps", "between", "end", "once"]

_Made = Literal["call", "command", "file", "elsewhere"]
"""From what its settings came: a call in the user's source, the options of the command (which
`HfArgumentParser` reads), a file that the command names, or what cannot be told."""


@dataclass(frozen=True)
class Trainer:
    """The settings of `Trainer` of Transformers or Lightning, or of accelerate's `Accelerator`.

    `library` is the one it is of, `cls` the name of its class and `where` the call in the user's
    source that made it. `settings` are its arguments as they took effect, by name: those that
    fixes speak of, as far as the installed version has them; `defaults` what they are where they
    are left out. `source` is the file that was read where it was `made` of a "file", and how the
    options begin ("--") where of the "command".
    """

    library: str
    cls: str
    where: Site | None = None
    made: _Made = "elsewhere"
    source: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Length:
    """How long the training is configured to be.

    `steps` of the loop that was timed, in all; `epochs` passes over its data, over all calls of
    `fit` (`fits`), None where it is not counted in epochs. `text` says it in words, `where` is
    the loop or call that says so. `open` is why it may come otherwise: early stopping. `others`
    are further places of the script that train, which are not in it.
    """

    steps: int
    text: str
    epochs: int | None = None
    fits: int = 1
    where: Site | None = None
    open: str = ""
    others: int = 0


@dataclass(frozen=True)
class Item:
    """A line of the ledger: what it is, how often it comes, and its seconds in all.

    `part` says where it stands: in the start, up to the first step; in what is compiled again in
    steps after it; in the steps; between them; in the end of the process; or among what the kept
    changes cost once. `after_s` is with these, None where there are none.
    """

    part: Part
    name: str
    count: int
    now_s: float
    after_s: float | None = None
    where: Site | None = None


@dataclass(frozen=True)
class Training:
    """The training as it is configured, in seconds of the clock on the wall.

    `basis` is "ledger" (start-up, steps, what stands between, times how often each comes) or
    "whole runs": then `runs` are the seconds of plain runs from start to end, the script as it
    is and with the changes in turns, A B B A. `low` and `high` bound `seconds_after`, which is
    None where nothing is changed. `configured` is None where the length is not known: then there
    are no seconds. `reason` says why that is, or why `seconds_after` is not known, or why no plain
    runs confirm it.
    """

    configured: Length | None
    basis: Literal["ledger", "whole runs"] = "ledger"
    seconds_now: float | None = None
    seconds_after: float | None = None
    low: float | None = None
    high: float | None = None
    items: tuple[Item, ...] = ()
    runs: tuple[float, ...] = ()
    reason: str = ""
