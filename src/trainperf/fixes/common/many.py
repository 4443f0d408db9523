"""Several edits of one fix, of which not all may be possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite

if TYPE_CHECKING:
    from trainperf.rewrite import Script

Edit = Callable[["Script"], None]


def make_those_that_can_be(script: Script, edits: Iterable[Edit]) -> None:
    """Make each edit, whole or not at all; raises what refused the first where none can be made."""
    refused: list[CannotRewrite] = []
    made = False
    for edit in edits:
        if reason := refusal(script, edit):
            refused.append(reason)
        else:
            edit(script)
            made = True
    if refused and not made:
        raise refused[0]


def refusal(script: Script, edit: Edit) -> CannotRewrite | None:
    """Return why an edit cannot be made in a script, which stays as it is; None where it can."""
    try:
        edit(script.copy())
    except CannotRewrite as error:
        return error
    return None
