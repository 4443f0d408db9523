"""The rules: one file each, in the families of fixes, named for their fix."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from trainperf import fixes
from trainperf.model.discover import discovered
from trainperf.source.rule import Rule

FOLDER = "lint"
"""The folder of a family that holds its rules."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return one instance of every rule, in order of their ids."""
    found = (rule for family in _families() for rule in _rules(family))
    return tuple(sorted(found, key=lambda rule: rule.id))


def _families() -> Iterator[str]:
    for info in pkgutil.iter_modules(fixes.__path__):
        if info.ispkg:
            yield f"{fixes.__name__}.{info.name}"


def _rules(family: str) -> Iterator[Rule]:
    path = importlib.import_module(family).__path__
    if any(info.name == FOLDER for info in pkgutil.iter_modules(path)):
        name = f"{family}.{FOLDER}"
        yield from discovered(name, importlib.import_module(name).__path__, Rule)
