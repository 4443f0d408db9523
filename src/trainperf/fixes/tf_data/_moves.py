"""Let calls of a pipeline change places, however they are written."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.statements import root

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script


def change_places(script: Script, one: Site, other: Site) -> None:
    """Swap two calls: `x.a().b()`, in one statement, or `x = x.a()`, `x = x.b()`.

    The order of the two sites does not matter. Raises `CannotRewrite` where the calls
    are written in any other way.
    """
    if one.file == other.file and script.around(one)[-1] is script.around(other)[-1]:
        _check_chain(script, (max(one, other, key=_end), min(one, other, key=_end)))
        script.swap_last_two_calls(max(one, other, key=_end))
    else:
        script.swap_statements(one, other)


def move_ahead(script: Script, calls: Sequence[Site]) -> None:
    """Move the last of some calls ahead of all others, in whatever order their sites are.

    All are in one chain, or in neighbouring statements `x = x.a()` of their own. Raises
    `CannotRewrite` where they are written in any other way.
    """
    calls = sorted(calls, key=_end, reverse=True)
    moved, *passed = calls
    if len(passed) == 1:
        change_places(script, moved, passed[0])
        return
    if len({site.file for site in calls}) > 1:
        raise CannotRewrite("the calls stand in different files")
    statements = [script.around(site)[-1] for site in calls]
    if all(each is statements[0] for each in statements):
        _check_chain(script, calls)
        script.move_call(moved, passed[-1])
        return
    _check_neighbours(script, moved, statements)
    script.insert_before(passed[-1], ast.unparse(statements[0]))
    script.remove_statement(moved)


def move_behind(script: Script, moved: Site, last: Site) -> None:
    """Move a call behind a later one of its pipeline: in one chain, or in `x = x.a()`, `x = …`.

    Raises `CannotRewrite` where the pipeline is written in any other way.
    """
    first, end = script.around(moved)[-1], script.around(last)[-1]
    if first is not end:
        block = _block(script, moved, first)
        if end not in block:
            raise CannotRewrite("the calls do not stand in one block")
        between = block[block.index(first) : block.index(end) + 1]
        _check_one_name(between)
    script.move_call_behind(moved, last)


def _check_chain(script: Script, calls: Sequence[Site]) -> None:
    """Refuse calls that do not directly follow each other, the last first."""
    for outer, inner in pairwise(calls):
        if _end(script.receiver(outer)) != _end(inner):
            raise CannotRewrite("another call stands between the two")


def _check_neighbours(script: Script, moved: Site, statements: Sequence[ast.stmt]) -> None:
    """Refuse all but neighbouring statements `x = x.a()` of one name, the last first."""
    block = _block(script, moved, statements[0])
    last = block.index(statements[0])
    for place, each in enumerate(statements):
        if last < place or block[last - place] is not each:
            raise CannotRewrite("the statements do not follow each other")
    _check_one_name(statements)


def _block(script: Script, site: Site, statement: ast.stmt) -> list[ast.stmt]:
    """The block that holds the statement around a site."""
    around = script.around(site)
    parent = around[-2] if len(around) > 1 else script.module(site.file)
    blocks = [value for _, value in ast.iter_fields(parent) if isinstance(value, list)]
    holding = [block for block in blocks if any(each is statement for each in block)]
    if not holding:
        raise CannotRewrite("the statements do not stand in a plain block")
    return holding[0]


def _check_one_name(statements: Sequence[ast.stmt]) -> None:
    """Refuse all but statements `x = x.a()` of one name."""
    names = set()
    for each in statements:
        if not isinstance(each, ast.Assign) or len(each.targets) != 1:
            raise CannotRewrite("the statements do not reassign the same name")
        target = each.targets[0]
        if not isinstance(target, ast.Name) or root(each.value) != target.id:
            raise CannotRewrite("the statements do not reassign the same name")
        names.add(target.id)
    if len(names) > 1:
        raise CannotRewrite("the statements do not reassign the same name")


def _end(site: Site) -> tuple[int, int]:
    return site.end_line, site.end_col
