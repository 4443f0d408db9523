"""Objects that make an item when they are asked for it, as a `Sequence` does, or give it once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trainperf.fixes.tf_data.edits.late_changes import DEEP, handed_in, scope_of, with_called
from trainperf.fixes.tf_data.edits.which_generator import yields
from trainperf.source.bodies import function_of
from trainperf.source.iterations import may_be_sequence
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import called

THROUGH = ("enumerate", "filter", "iter", "list", "map", "reversed", "sorted", "tuple", "zip")
"""Functions that go through what they are given."""

ITEMS_MADE = re.compile(r"^[A-Z]|^flow|dataset_from|(loader|reader)$")
"""Names of functions and classes whose results make an item when it is asked for."""

HELD = ("collections.", "h5py.", "numpy.", "pandas.", "pathlib.", "scipy.")
"""Modules whose objects hold what they give."""


def maker_asked(module: Module, function: Function) -> str:
    """Return an object that a generator, or a function that it calls, has make items, or ''."""
    found = (each for one in with_called(module, function) for each in _gone_through(module, one))
    return next((ast.unparse(each) for each in found if makes_items(module, each)), "")


def maker_given(module: Module, given: ast.expr) -> str:
    """Return an object that makes items among what a call hands to a generator, or ''."""
    calls = (each for each in ast.walk(module.value(given)) if isinstance(each, ast.Call))
    handed = (each for call in calls for each in (*call.args, *(k.value for k in call.keywords)))
    return next((ast.unparse(each) for each in handed if makes_items(module, each)), "")


def _gone_through(module: Module, function: Function) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Subscript | ast.YieldFrom):
            yield node.value
        elif isinstance(node, ast.Call):
            name = module.name(node.func) or ""
            yield from node.args if name in THROUGH or name.startswith("itertools.") else ()


def makes_items(module: Module, node: ast.expr, deep: int = DEEP) -> bool:
    """Whether what a name stands for may make an item each time, or gives each only once."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if not deep or not isinstance(node, ast.Name | ast.Attribute):
        return False
    if isinstance(node, ast.Name) and node.id == "self":
        return True
    for one in module.bindings(node) or []:
        function = module.function(node)
        here = function is not None and module.function(one.node) is function
        value = one.value if one.kind == "value" else None
        if isinstance(value, ast.Call | ast.GeneratorExp):
            made = not here and _is_maker(module, value)
        elif isinstance(one.node, ast.arg):
            given = handed_in(module, scope_of(module, [one]), one.node.arg)
            made = any(makes_items(module, each, deep - 1) for _, each in given)
        else:
            made = value is not None and makes_items(module, value, deep - 1)
        imported = one.kind == "import" and not ast.unparse(node).isupper()
        if made or imported:
            return True
    return False


def _is_maker(module: Module, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not may_be_sequence(node):
        return True
    function = function_of(module, node.func)
    if isinstance(function, FUNCTIONS):
        return yields(function)
    held = (module.name(node.func) or "").startswith(HELD)
    return not held and ITEMS_MADE.search(called(node)) is not None
