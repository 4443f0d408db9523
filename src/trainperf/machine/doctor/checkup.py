"""The findings of an examination of the machine: values, no conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainperf.model import Machine

Status = Literal["ok", "warning", "problem", "unknown"]

_ORDER: tuple[Status, ...] = ("problem", "warning", "unknown", "ok")


@dataclass(frozen=True)
class Check:
    """One thing looked at: a name, what was found, and what to do about it.

    `status` is "ok", "warning" (works, but costs speed or may bite), "problem" (does
    not work as it should) or "unknown" (could not be looked at; `text` says why).
    `advice` is empty where there is nothing to do.
    """

    name: str
    status: Status
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Checkup:
    """The machine and everything that was checked about it, in reading order."""

    machine: Machine
    checks: tuple[Check, ...]

    @property
    def worst(self) -> Status:
        """The worst status among the checks; "ok" if there are none."""
        found = {check.status for check in self.checks}
        return next((status for status in _ORDER if status in found), "ok")
