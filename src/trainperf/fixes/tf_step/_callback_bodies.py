"""A callback's method that does its work less often, where all it does is observe."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import replace

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.repeating import RANDOM
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.statements import (
    COLLECTS,
    Function,
    assigned,
    dotted,
    keeps_state,
    last_name,
    names_in,
    parameters,
    root,
    walk,
)

EVERY = 100
"""Batches between two times that a callback of the user's own still does its work."""

PER_BATCH = frozenset(
    ["on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end"]
)
"""Arguments of Keras's `LambdaCallback` whose functions are called for each batch."""

COMMENT = "# trainperf: works in every {}th batch only, as it takes long against a step"

LAST = "# trainperf: only what the last batch of an epoch leaves is read"

ENDS = ("on_batch_end", "on_train_batch_end")

READS_LATE = {"on_epoch_end", "on_train_end"}
"""Methods that are called when an epoch, or all of them, have ended."""

CHANGES = frozenset({
    "apply", "apply_gradients", "assign", "assign_add", "assign_sub", "compile",
    "evaluate_and_stop", "exit", "fit", "load_weights", "minimize", "reset_state", "reset_states",
    "set_value", "set_weights", "train_on_batch",
})  # fmt: skip
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


def work_last(script: Script, site: Site) -> None:
    """Have the method whose head is at `site` work in the last batch of an epoch only.

    Where Keras does not know how many batches an epoch has, it works in each as before. Raises
    `CannotRewrite` where more of its work is read than what the last batch leaves.
    """
    method = script.definition(site)
    more = read_earlier(method, script.methods(site), script.module(site.file))
    if more:
        raise CannotRewrite(f"{method.name}: {more}")
    steps = f'{parameters(method)[0]}.params["steps"]'
    guard = f"{LAST}\nif {steps} and {parameters(method)[1]} + 1 < {steps}:\n    return"
    script.insert_first(site, guard)


def read_earlier(method: Function, methods: dict[str, Function], tree: ast.Module) -> str:
    """Say what of a method's work may be seen before its epoch ends; '' if nothing.

    Its attributes may be set, each anew in every batch, and read where an epoch has ended.
    """
    if method.name not in ENDS or method.decorator_list or len(parameters(method)) < 2:
        return "it is no plain method for the end of a batch"
    itself, *given = parameters(method)
    body_ = body(method)
    if any(names_in(each) & set(given) for each in body_):
        return "it uses the batch's number or logs"
    kept = {
        target.attr
        for statement in body_
        if isinstance(statement, ast.Assign)
        for target in assigned(statement)
        if isinstance(target, ast.Attribute) and dotted(target) == f"{itself}.{target.attr}"
    }
    if not kept:
        return "it keeps nothing"
    functions = {each.name: each for each in tree.body if isinstance(each, Function)} | methods
    as_names = _KeptAsNames(itself, kept)
    observed = [as_names.visit(copy.deepcopy(each)) for each in body_]
    more = _changes(observed, functions, frozenset()) or _shows(body_, functions, frozenset())
    if more:
        return f"it does more than observe: {more}"
    owner = {id(node) for each in methods.values() for node in ast.walk(each)}
    late = {id(node) for name in READS_LATE & set(methods) for node in ast.walk(methods[name])}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in kept:
            continue
        if isinstance(node.ctx, ast.Load) and (id(node) in owner) and id(node) not in late:
            return f"{node.attr} is read in every batch"
        if id(node) not in owner and _in_a_class(tree, node):
            return f"{node.attr} is read elsewhere"
    return ""


class _KeptAsNames(ast.NodeTransformer):
    """Puts a name of the method's own in place of each attribute that it sets."""

    def __init__(self, itself: str, kept: set[str]) -> None:
        self._itself = itself
        self._kept = kept

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Return the name for the attribute."""
        if node.attr in self._kept and dotted(node) == f"{self._itself}.{node.attr}":
            return ast.copy_location(ast.Name(f"_{node.attr}", node.ctx), node)
        return self.generic_visit(node)  # type: ignore[return-value]


def _shows(statements: list[ast.stmt], functions: dict[str, Function], seen: frozenset[str]) -> str:
    """Whether statements, or the functions of the file that they call, write or draw anything."""
    for node in walk(statements):
        name = last_name(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        if RANDOM.search(name):
            return f"it may draw random numbers: {name}"
        if not isinstance(node, ast.Call):
            continue
        name = last_name(node.func)
        if SHOWS.search(name):
            return f"it calls {name}()"
        if name in functions and name not in seen:
            found = _shows(functions[name].body, functions, seen | {name})
            if found:
                return found
    return ""


def _in_a_class(tree: ast.Module, node: ast.AST) -> bool:
    classes = (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))
    return any(node is inner for each in classes for inner in ast.walk(each))


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
