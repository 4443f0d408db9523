"""What is looked for: settings as rows, and a function for all else; ids are those of fixes."""

from __future__ import annotations

from functools import cache

from trainperf.lint.rule import Rule
from trainperf.lint.rules import settings, tensorflow, torch


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, in order of their ids, of which some have several."""
    named = [*vars(tensorflow).values(), *vars(torch).values()]
    found = [*settings.ROWS, *(value for value in named if isinstance(value, Rule))]
    return tuple(sorted(found, key=lambda rule: rule.id))
