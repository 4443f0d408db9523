"""Python in a traced function that another number of traces would change."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.statements import (
    Function,
    dotted,
    keeps_state,
    made_here,
    names_in,
    parameters,
    root,
    walk,
)

ONCE = frozenset({"print", "open", "input", "next"})
"""Built-in functions whose effect is that of one trace."""

ONCE_FROM = ("random.", "np.random.", "numpy.random.", "time.", "datetime.", "logging.")
"""Modules likewise: what they give or do is done when the function is traced."""

GROW = (ast.Mult, ast.Pow, ast.LShift)

LISTS = frozenset({"append", "appendleft", "extend", "insert", "pop", "popleft", "put"})
"""Methods of Python's own collections; `add` and `update_state` may be TensorFlow's."""

NEEDS_NUMBER = frozenset({
    "bool", "divmod", "enumerate", "float", "format", "hash", "int", "isinstance", "len", "list",
    "max", "min", "open", "print", "range", "repr", "round", "sorted", "str", "sum", "tuple",
    "type",
})  # fmt: skip
"""Built-in functions that make something else of a tensor than of a number, or fail."""

NUMBERS_ONLY = ("math", "np", "numpy", "random", "itertools")
"""Modules whose functions do not take the tensors of a graph."""

BOUNDS = {"min": "minimum", "max": "maximum"}
"""Built-in functions of two numbers, and TensorFlow's of the same."""

SETTINGS = frozenset({
    "axis", "axes", "depth", "dims", "k", "maxlen", "minlength", "name", "num",
    "num_or_size_splits", "ndims", "perm", "repeats", "seed", "shape", "size", "training", "units",
})  # fmt: skip
"""Keywords that want a number known when the graph is made."""


def acts_once(function: Function) -> str:
    """Say what the function does in Python, so that it is done once per trace; '' if nothing."""
    state = keeps_state(function.body, LISTS)
    if state:
        return f"it changes {state}, once per trace"
    for node in walk(function.body):
        called = dotted(node.func) if isinstance(node, ast.Call) else ""
        if called in ONCE or called.startswith(ONCE_FROM):
            return f"it calls {called}(), once per trace"
    return ""


def needs_shape(function: Function) -> str:
    """Say where the function reads a shape that must be known when it is traced; '' if nowhere."""
    given = set(parameters(function)) - {"self"}
    called = {id(node.func) for node in walk(function.body) if isinstance(node, ast.Call)}
    last = {
        id(node.value)
        for node in walk(function.body)
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "-1"
    }  # the size of the features: seldom another one
    for node in walk(function.body):
        shape = isinstance(node, ast.Attribute) and node.attr == "shape"
        if shape and id(node) not in called and id(node) not in last:
            return f"it reads {ast.unparse(node)}"
        if isinstance(node, ast.Attribute) and node.attr in ("get_shape", "as_list"):
            return f"it reads {ast.unparse(node)}()"
        if isinstance(node, ast.Call) and dotted(node.func) == "len" and names_in(node) & given:
            return f"it reads {ast.unparse(node)}"
    return ""


def needs_number(function: Function, parameter: str) -> str:
    """Say what the function does with a Python number and not with a tensor; '' if nothing."""
    followed = _followed(function, parameter)
    for node in walk(function.body):
        for part, how in _uses(node):
            if names_in(part) & followed:
                return f"{parameter} {how}"
    return ""


def bounds(function: Function, parameter: str) -> list[ast.Call]:
    """The calls of `min` and `max` that a number goes into, with one other value."""
    followed = _followed(function, parameter)
    return [
        node
        for node in walk(function.body)
        if isinstance(node, ast.Call) and _bounds(node) and names_in(node) & followed
    ]


def becomes_float(function: Function, parameter: str) -> bool:
    """Whether a whole number is divided, or reckoned with a literal of type float.

    A tensor of whole numbers does not go together with floats; Python's numbers do.
    """
    followed = _followed(function, parameter)
    others = _others(function)
    for node in walk(function.body):
        if isinstance(node, ast.BinOp):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Call) and _bounds(node):
            sides = node.args
        else:
            continue
        number = any(_is_number(each, followed, others) for each in sides)
        literal = any(
            isinstance(each, ast.Constant) and isinstance(each.value, float) for each in sides
        )
        divided = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if number and (literal or divided):
            return True
    return False


def may_overflow(function: Function, parameter: str) -> str:
    """Say where a whole number grows beyond what an int32 holds, maybe; '' if nowhere."""
    followed = _followed(function, parameter)
    others = _others(function)
    for node in walk(function.body):
        grows = isinstance(node, ast.BinOp) and isinstance(node.op, GROW)
        if grows and _is_number(node, followed, others):
            return f"{ast.unparse(node)} may not fit into an int32"
    return ""


def _others(function: Function) -> set[str]:
    """Names of what need not be a number: made in the function, or given to it."""
    return (made_here(function.body) | set(parameters(function))) - {"self"}


def _followed(function: Function, parameter: str) -> set[str]:
    """The parameter, and the names of numbers that are worked out from it alone."""
    followed = {parameter}
    others = _others(function)
    while True:
        found = {
            target.id
            for node in walk(function.body)
            if isinstance(node, ast.Assign) and _is_number(node.value, followed, others)
            for target in node.targets
            if isinstance(target, ast.Name)
        } - followed
        if not found:
            return followed
        followed |= found


def _is_number(value: ast.AST, followed: set[str], others: set[str]) -> bool:
    found = names_in(value)
    calls = any(isinstance(node, ast.Call) and not _bounds(node) for node in ast.walk(value))
    return bool(found & followed) and not found & (others - followed) and not calls


def _bounds(call: ast.Call) -> bool:
    """Whether a call is `min(a, b)` or `max(a, b)`."""
    plain = not call.keywords and not any(isinstance(each, ast.Starred) for each in call.args)
    return plain and len(call.args) == 2 and dotted(call.func) in BOUNDS


def _uses(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Pieces of source in which a number may not become a tensor, with the reason."""
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert) and not _is_none(node.test):
        yield node.test, "decides in Python what the function does"
    elif isinstance(node, ast.Match):
        yield node.subject, "decides in Python what the function does"
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield test, "decides in Python what the function does"
    elif isinstance(node, ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    ):
        yield node, "stands with and, or, not"
    elif isinstance(node, ast.Subscript):
        yield node.slice, "is an index"
    elif isinstance(node, ast.FormattedValue):
        yield node, "is written into a text"
    elif isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(not isinstance(target, ast.Name | ast.Tuple) for target in targets):
            yield node.value, "is kept outside the function"
    elif isinstance(node, ast.Call):
        yield from _arguments(node)


def _arguments(call: ast.Call) -> Iterator[tuple[ast.AST, str]]:
    called = dotted(call.func)
    needs = called in NEEDS_NUMBER and not _bounds(call)
    if needs or root(call.func) in NUMBERS_ONLY:
        yield from ((each, f"goes into {called}()") for each in (*call.args, *call.keywords))
    for argument in call.args:
        if isinstance(argument, ast.List | ast.Tuple):
            yield argument, "is part of a shape or a list"
        elif isinstance(argument, ast.Starred):
            yield argument, "is handed on with *"
    for keyword in call.keywords:
        if keyword.arg is None:
            yield keyword, "is handed on with **"
        elif keyword.arg in SETTINGS:
            yield keyword, f"is the {keyword.arg} of {called or 'a call'}()"


def _is_none(test: ast.expr) -> bool:
    """Whether a test is `x is None` or `x is not None`, which a tensor answers as well."""
    return isinstance(test, ast.Compare) and all(
        isinstance(operator, ast.Is | ast.IsNot) for operator in test.ops
    )
