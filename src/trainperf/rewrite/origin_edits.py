"""Edits where an argument comes from: a literal, a flag of the command, a dictionary."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.rewrite.wanted import PLAIN, Wanted, is_positive
from trainperf.source.arguments import keyword
from trainperf.source.origins import readers
from trainperf.source.origins.calls import Elsewhere, LeftOut
from trainperf.source.origins.project import Project
from trainperf.source.origins.values import File, Node, Origin, literal

if TYPE_CHECKING:
    from trainperf.rewrite.script import Script


def replace_origin(script: Script, origin: Origin, value: str) -> None:
    """Put a value in place of the literal that a call has it from, or turn a flag on."""
    if origin.flag is not None:
        _turn_on(script, origin)
        return
    node = _collapsed(origin.file, origin.node, lambda other: _says(other, value)) or origin.node
    script.replace_node(origin.file.path, node, value)


def _turn_on(script: Script, origin: Origin) -> None:
    """Make a flag that is only ever turned on one that is on, and may be turned off."""
    assert origin.flag is not None
    if not any(option.startswith("--") for option in origin.options):
        raise Elsewhere(f"{origin.options[0]} turns it on: give it in the command")
    argparse = script.module_name(origin.file.path, "argparse")
    script.replace_node(origin.file.path, origin.node, f"{argparse}.BooleanOptionalAction")
    default = keyword(origin.flag, "default")
    if default is not None:
        script.replace_node(origin.file.path, default.value, "True")
    else:
        script.add_entry(origin.file.path, origin.flag, "default", "True")


def add_entry(script: Script, file: File, display: ast.Dict | ast.Call, wanted: Wanted) -> None:
    """Name an argument in a dictionary, or a call, whose entries a call is given."""
    value = wanted.value
    if wanted.needs:
        needed = _entry(display, wanted.needs)
        if needed is None or not (PLAIN.fullmatch(ast.unparse(needed)) or is_positive(needed)):
            raise CannotRewrite(f"{wanted.needs} is not in the same dictionary, or may be 0")
        value = wanted.where(ast.unparse(needed))
    says = _collapsed(file, display, lambda other: _holds_just(other, wanted.name, value))
    if says is not None:
        other = says.orelse if says.body is display else says.body
        script.replace_node(file.path, says, script.source(file.path).text_of(other))
        return
    script.add_entry(file.path, display, wanted.name, value)


def common_display(
    project: Project, left: Sequence[LeftOut], called: str, wanted: Wanted
) -> tuple[File, ast.Dict | ast.Call]:
    """Return the one dictionary to name the argument in: all that may have run pass it.

    One that has the argument which this needs comes first, and one that other code reads as
    well is none.
    """
    refused: CannotRewrite | None = None
    displays: list[Node] = [one for one in left[0].displays if all(one in e.displays for e in left)]
    for file, node in displays:
        assert isinstance(node, ast.Dict | ast.Call)
        if wanted.needs and _entry(node, wanted.needs) is None:
            continue
        try:
            readers.check(project, file, node, called, wanted.name)
            readers.check_taker(project, file, node, called)
            return file, node
        except CannotRewrite as error:
            refused = error
    raise refused or CannotRewrite(f"{wanted.name} stands in none of several dictionaries")


def _entry(display: ast.expr, name: str) -> ast.expr | None:
    if isinstance(display, ast.Call):
        named = keyword(display, name)
        return named.value if named else None
    if isinstance(display, ast.Dict):
        for key, value in zip(display.keys, display.values, strict=True):
            if key is not None and literal(key) == (name,):
                return value
    return None


def _collapsed(file: File, node: ast.expr, same: Callable[[ast.expr], bool]) -> ast.IfExp | None:
    """Return the choice `a if c else b` around a branch that becomes what the other one is."""
    around = file.module.parent(node)
    if not isinstance(around, ast.IfExp) or node is around.test:
        return None
    return around if same(around.orelse if node is around.body else around.body) else None


def _says(node: ast.expr, value: str) -> bool:
    return ast.unparse(node) == ast.unparse(ast.parse(value, mode="eval"))


def _holds_just(node: ast.expr, name: str, value: str) -> bool:
    """Whether a dictionary holds one entry and no more."""
    if isinstance(node, ast.Dict):
        one = len(node.keys) == 1
    else:
        one = isinstance(node, ast.Call) and len(node.keywords) == 1 and not node.args
    found = _entry(node, name) if one else None
    return found is not None and _says(found, value)
