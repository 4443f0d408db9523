"""The object of a library that holds the settings of a training, as it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from trainperf.model.basics import Site

Made = Literal["call", "command", "file", "elsewhere"]
"""From what its settings came: a call in the user's source, the options of the command (which
`HfArgumentParser` reads), a file that the command names, or what cannot be told."""


@dataclass(frozen=True)
class Trainer:
    """The settings of `Trainer` of Transformers or Lightning, or of accelerate's `Accelerator`.

    `library` is the one it is of, `cls` the name of its class and `where` the call in the user's
    source that made it. `settings` are its arguments as they took effect, by name: those that
    fixes speak of, as far as the installed version has them; `defaults` what they are where they
    are left out. `source` is the file that was read where it was `made` of a "file", and how the
    options begin ("--") where of the "command". `version` is the
    library's, "" where it is not known.
    """

    library: str
    cls: str
    where: Site | None = None
    made: Made = "elsewhere"
    source: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    version: str = ""

    def lacks(self, name: str) -> bool:
        """Whether the installed version has no such setting."""
        return name not in self.settings and name not in self.defaults
