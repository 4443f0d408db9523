"""The rules: one file each, discovered by being there, named for their fix."""

from __future__ import annotations

from functools import cache

from trainperf.linting.rule import Rule
from trainperf.model.discover import discovered


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return one instance of every rule in the folder, in order of their ids."""
    return tuple(discovered(__name__, __path__, Rule))
