"""A callback's method that does its work less often, where all it does is observe."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.statements import (
    COLLECTS,
    Function,
    assigned,
    dotted,
    keeps_state,
    parameters,
    root,
    walk,
)

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

EVERY = 100
"""Batches between two times that a callback of the user's own still does its work."""

PER_BATCH = frozenset(
    ["on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end"]
)
"""Arguments of Keras's `LambdaCallback` whose functions are called for each batch."""

COMMENT = "# trainperf: works in every {}th batch only, as it takes long against a step"

CHANGES = frozenset(
    [
        "apply",
        "apply_gradients",
        "assign",
        "assign_add",
        "assign_sub",
        "compile",
        "evaluate_and_stop",
        "exit",
        "fit",
        "load_weights",
        "minimize",
        "reset_state",
        "reset_states",
        "set_value",
        "set_weights",
        "train_on_batch",
    ]
)
"""Methods and functions that change the model, the optimizer or the run."""

PLAIN = frozenset({"float", "int", "len", "get", "item", "numpy"})
"""Functions and methods that cost nothing, as a counter or a list of losses needs them."""


SHOWS = re.compile(r"save|dump|write|plot|draw|show|print|log|summary", re.IGNORECASE)
"""Names of functions that may be given the model and leave it as it is."""

MODELS = {"model", "self.model", "self.model.weights", "self.model.optimizer"}


def work_seldom(script: Script, site: Site, every: int) -> None:
    """Have the method whose head is at `site` return at once, but in every so many batches.

    Raises `CannotRewrite` where it does more than observe.
    """
    _guard(script, site, every, 1)


def call_seldom(script: Script, site: Site, every: int) -> None:
    """Have the functions of the `LambdaCallback` at `site` work in every so many batches only.

    Raises `CannotRewrite` where one does more than observe, or none is to be seen.
    """
    given = [each.value for each in script.call(site).keywords if each.arg in PER_BATCH]
    if not given:
        raise CannotRewrite("what it calls for each batch is not named")
    for value in given:
        if isinstance(value, ast.Lambda):
            _in_lambda(script, site, value, every)
            continue
        found = [
            node
            for node in script.module(site.file).body
            if isinstance(node, Function) and isinstance(value, ast.Name) and node.name == value.id
        ]
        if len(found) != 1:
            raise CannotRewrite(f"{ast.unparse(value)} is no function of the file")
        _guard(script, replace(site, line=found[0].lineno, col=0), every, 0)


def _in_lambda(script: Script, site: Site, function: ast.Lambda, every: int) -> None:
    named = [*function.args.posonlyargs, *function.args.args]
    if not named:
        raise CannotRewrite("it does not name the batch")
    batch = named[0].arg
    body: list[ast.stmt] = [ast.Expr(function.body)]
    more = _chooses(body, batch) or _changes(body, {}, frozenset())
    if more:
        raise CannotRewrite(f"it does more than observe: {more}")
    place = script.site_of(site, function.body)
    script.wrap_call(place, f"None if {batch} % {every} else {{}}")


def _guard(script: Script, site: Site, every: int, place: int) -> None:
    """Have a function return at once but in every so many batches, its argument at `place`."""
    method = script.definition(site)
    functions = {e.name: e for e in script.module(site.file).body if isinstance(e, Function)}
    more = does_more(method, functions | script.methods(site), place)
    if more:
        raise CannotRewrite(f"{method.name} does more than observe: {more}")
    guard = f"{COMMENT.format(every)}\nif {parameters(method)[place]} % {every}:\n    return"
    script.insert_first(site, guard, after=head(method))


def head(function: Function) -> int:
    """Return how many first statements keep count: they are to run in every batch.

    Counters and lists of numbers (`self.seen += 1`, `self.losses.append(logs["loss"])`)
    at the top of the method, with what they need; the docstring is not counted.
    """
    count = 0
    for index, statement in enumerate(body(function)):
        if not _is_plain(statement):
            break
        if keeps_state([statement]):
            count = index + 1
    return count


def body(function: Function) -> list[ast.stmt]:
    """Return the statements of a function without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def does_more(function: Function, methods: dict[str, Function], place: int = 1) -> str:
    """Say what a method does beside observing; '' if nothing is to be seen.

    What `head` leaves alone does not count. `methods` are those of its class, and functions of
    its file; the batch is its argument at `place`.
    """
    if isinstance(function, ast.AsyncFunctionDef) or function.decorator_list:
        return "it is no plain method"
    if len(parameters(function)) <= place:
        return "it does not name the batch"
    batch = parameters(function)[place]
    statements = body(function)[head(function) :]
    if not statements:
        return "it only keeps count"
    return _chooses(body(function), batch) or _changes(statements, methods, frozenset())


def _chooses(statements: list[ast.stmt], batch: str) -> str:
    """Whether the method picks its batches itself, or sees to it that training ends."""
    for node in walk(statements):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            if not isinstance(node.left, ast.Constant | ast.JoinedStr):
                return f"it chooses its batches itself: {ast.unparse(node)}"
        elif isinstance(node, ast.Name) and node.id == batch and isinstance(node.ctx, ast.Store):
            return f"it changes {batch}"
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            return "it is a generator"
    return ""


def _changes(statements: list[ast.stmt], methods: dict[str, Function], seen: frozenset[str]) -> str:
    state = keeps_state(statements)
    if state:
        return f"it changes {state} in every batch"
    for node in walk(statements):
        if isinstance(node, ast.Raise):
            return "it may end the training"
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else root(node.func)
        if name in CHANGES or name == "super":
            return f"it calls {ast.unparse(node.func)}()"
        own = ast.unparse(node.func) in (name, f"self.{name}") and name in methods
        if own and name not in seen:
            found = _changes(methods[name].body, methods, seen | {name})
            if found:
                return f"{found}, in {name}()"
        given = {dotted(each) for each in (*node.args, *(k.value for k in node.keywords))}
        if not own and not SHOWS.search(name) and given & MODELS:
            return f"it gives the model to {name}()"
    return ""


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement is one of those that keep count, or names something for them."""
    kept = (ast.Assign, ast.AugAssign, ast.Expr)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    if isinstance(statement, ast.Expr):
        call = statement.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr not in COLLECTS or root(call.func) != "self":
            return False
        calls.remove(call)
    deep = any(ast.unparse(target).count(".") > 1 for target in assigned(statement))
    return isinstance(statement, kept) and not deep and all(_is_cheap(call) for call in calls)


def _is_cheap(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else root(call.func)
    return name in PLAIN
