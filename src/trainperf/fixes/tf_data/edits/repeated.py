"""A generator that yields the same in every epoch, by its source, or why that is not sure."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.repeating import not_repeated
from trainperf.fixes.tf_data.edits.item_makers import maker_asked, maker_given
from trainperf.fixes.tf_data.edits.late_changes import (
    attribute_changed,
    given_changed,
    name_changed,
    with_called,
)
from trainperf.fixes.tf_data.edits.mapped import call_at, parsed
from trainperf.fixes.tf_data.edits.which_generator import GIVEN, YIELDS, generator_at
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.iterations import of_this_function
from trainperf.source.module import Module
from trainperf.source.mutations import changes_shared
from trainperf.source.scopes import Function
from trainperf.source.statements import made_here, parameters, root

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

KEPT = "no cache keeps what it yields"

ENDLESS = ("itertools.cycle", "itertools.count")
REPEAT = "itertools.repeat"
"""Calls of which a loop may never end."""

PURE = frozenset(
    {
        "abs", "all", "any", "as_posix", "astype", "clip", "copy", "count", "decode", "encode",
        "endswith", "exists", "find", "flatten", "format", "get", "glob", "groupby", "head",
        "index", "is_file", "items", "iterdir", "iterrows", "itertuples", "join", "keys", "lower",
        "max", "mean", "min", "numpy", "ravel", "read_bytes", "read_text", "replace", "reshape",
        "resolve", "rglob", "round", "split", "splitlines", "startswith", "std", "strip", "sum",
        "to_numpy", "tobytes", "toarray", "tolist", "transpose", "upper", "values", "with_suffix",
    }
)  # fmt: skip
"""Methods that give the same each time and leave what they are called on as it is."""


def check_repeats(script: Script, site: Site, seen: object) -> None:
    """Raise `CannotRewrite` unless the generator of the call at `site` surely repeats itself.

    `seen` is where the run saw it defined: file and line, or None. It must end by itself, call
    nothing that may draw or keeps state, and read nothing that changes behind it.
    """
    head = generator_at(script, site, seen)
    function, module = script.definition(head), parsed(script, head.file)
    name = function.name
    if isinstance(function, ast.AsyncFunctionDef) or _endless(module, function):
        raise CannotRewrite(f"{KEPT}: {name} may go on for ever")
    drawn = not_repeated(module, function)
    if drawn:
        raise CannotRewrite(f"{KEPT}: {name} calls {drawn}, which may give another result")
    kept = changes_shared(module, function.body) or _asked(module, function)
    if kept:
        raise CannotRewrite(f"{KEPT}: {name} may change {kept}, or read on from it")
    there = module if head.file == site.file else parsed(script, site.file)
    call = call_at(script, there, site)
    given = argument(call, GIVEN["from_generator"], 0) or call
    maker = maker_asked(module, function) or maker_given(there, given)
    if maker:
        raise CannotRewrite(f"{KEPT}: {name} goes through {maker}, which may make other items")
    changed = attribute_changed(module, function) or name_changed(module, function)
    changed = changed or given_changed(there, given)
    if changed:
        raise CannotRewrite(f"{KEPT}: {name} reads {changed}, which may change between epochs")


def _endless(module: Module, function: Function) -> bool:
    for node in of_this_function(function.body):
        if isinstance(node, ast.While) and any(
            isinstance(each, YIELDS) for each in of_this_function(node.body)
        ):
            return True
        if isinstance(node, ast.Call):
            name, many = module.name(node.func), len(node.args) > 1
            if name in ENDLESS or (name == "iter" and many) or (name == REPEAT and not many):
                return True
    return False


def _asked(module: Module, function: Function) -> str:
    """A method of an object from outside of which it is not known that it changes nothing."""
    made = made_here(function.body)
    for each in with_called(module, function):
        own = made if each is function else made_here(each.body) | set(parameters(each))
        for node in ast.walk(each):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            name = root(node.func)
            if not name or name in own - {"self"} or node.func.attr in PURE:
                continue
            if module.name(node.func) is None and function_of(module, node.func) is None:
                return f"{ast.unparse(node.func)}()"
    return ""
