"""Places in the source, and numbers that were not taken."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trainperf.errors import NotMeasured

T = TypeVar("T")

INTERNAL = {"internal": True}
"""The metadata of a field that is not written: it has its default when the value is read again."""


@dataclass(frozen=True)
class Missing:
    """Stands in place of a number that was not measured: the reason why.

    `applies` is False where there is no such number: a probe of what the script does not have.
    """

    reason: str
    applies: bool = field(default=True, metadata=INTERNAL)


def taken(value: T | Missing) -> T:
    """Return `value`, or raise `NotMeasured` with the reason why there is none."""
    if isinstance(value, Missing):
        raise NotMeasured(value.reason)
    return value


class Taken(Generic[T]):
    """Reads the field of its own name and an underscore: `NotMeasured` where that is `Missing`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._field = f"{name}_"

    def __get__(self, instance: object, owner: type) -> T:
        value: T | Missing = getattr(instance, self._field)
        return taken(value)


def known(value: T | Missing) -> T | None:
    """Return `value`, None where there is none: for a text that leaves out what is not known."""
    return None if isinstance(value, Missing) else value


def half_width(share: float, samples: int) -> float:
    """Half of the 95 % interval of a share of so many samples (Wilson's, for few as well)."""
    z, share = 1.96 / math.sqrt(samples), min(1.0, share)
    return z * math.sqrt(share * (1 - share) + z * z / 4) / (1 + z * z)


def is_taken(value: object) -> bool:
    """Say whether a number was taken."""
    return not isinstance(value, Missing)


@dataclass(frozen=True)
class Site:
    """A place in the user's source: a call expression, or the head of a function.

    Lines count from 1; columns count characters from 0, the end is exclusive, as in
    `ast`. A site whose exact extent is not known has `end_line` 0.
    """

    file: str
    line: int
    function: str = ""
    col: int = 0
    end_line: int = 0
    end_col: int = 0

    @property
    def exact(self) -> bool:
        """Whether the extent of the expression is known, so that it can be edited."""
        return self.end_line > 0
