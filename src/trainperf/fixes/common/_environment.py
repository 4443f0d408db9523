"""The base of fixes of what surrounds a script."""

from __future__ import annotations

from typing import ClassVar

from trainperf.fixes import Fix
from trainperf.model import Category, Equivalence


class EnvironmentFix(Fix):
    """A fix of the machine, its driver, a container or where data lies: the source stays."""

    framework: ClassVar[str] = "any"
    category: ClassVar[Category] = "environment"
    equivalence: ClassVar[Equivalence] = Equivalence.ENVIRONMENT
