"""Code that may run before its time: it makes things, with nothing that other code changes."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence

from trainperf.errors import CannotRewrite
from trainperf.source.bodies import calls_in, function_of, reached
from trainperf.source.iterations import loaded, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import assigned, root

MODEL = frozenset(
    {
        "apply", "apply_gradients", "assign", "assign_add", "assign_sub", "compile", "evaluate",
        "fit", "get_weights", "gradient", "load_weights", "minimize", "predict",
        "predict_on_batch", "reset_metrics", "reset_states", "save", "save_weights",
        "set_weights", "test_on_batch", "train_on_batch", "train_step", "update_state",
    }
)  # fmt: skip
"""Methods of models, optimizers, metrics and variables: they stay in the loop."""

SAID = ("print", "input", "time.", "logging.", "tensorflow.summary.", "wandb.", "datetime.")
"""Calls, by the start of their names, whose moment matters."""

PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.If, ast.Expr)
JUMPS = (ast.Break, ast.Continue)
LEAVES = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr)


def makes(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement only makes things, so that it may be done before its time."""
    if not isinstance(statement, PLAIN):
        return False
    for node in ast.walk(statement):
        if isinstance(node, (*LEAVES, *JUMPS)):
            return False
        if isinstance(node, ast.Call) and not _may_move(module, node):
            return False
    return True


def _may_move(module: Module, call: ast.Call) -> bool:
    name = module.name(call.func) or ""
    if name.startswith(SAID) or (isinstance(call.func, ast.Attribute) and call.func.attr in MODEL):
        return False
    local = function_of(module, call.func)
    if isinstance(local, FUNCTIONS):
        return not _trains(module, local)
    if isinstance(call.func, ast.Name):  # `model(noise)`: a class of this file, a model, a layer
        return _imported(module, call.func)
    return True


def _imported(module: Module, node: ast.expr) -> bool:
    """Whether a name, or what an attribute is of, is a module, imported, or built in."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    found = module.bindings(node)
    if not found:
        return node.id in dir(builtins)
    return all(each.kind == "import" for each in found)


def _trains(module: Module, function: Function) -> bool:
    """Whether a function of the file has to do with models, or with the moment it is called."""
    for call in calls_in(module, function):
        if isinstance(call.func, ast.Attribute) and call.func.attr in MODEL:
            return True
        if (module.name(call.func) or "").startswith(SAID):
            return True
    return any(isinstance(each, ast.Global | ast.Nonlocal) for each in ast.walk(function))


def names_read(module: Module, parts: Sequence[ast.AST]) -> set[str]:
    """The names that some code reads, and those of the module that its functions read."""
    found = [each for each in reached(module, parts) if isinstance(each, ast.Name)]
    return loaded(parts) | {
        each.id for each in found if module.bindings(each) is module.top.find(each.id)
    }


def check_calls(
    module: Module,
    making: Sequence[ast.AST],
    others: Sequence[ast.stmt],
    hoisted: Sequence[ast.expr] = (),
) -> None:
    """Raise where what makes batches asks an object that the rest of the loop has to do with."""
    touched = _touched(module, others)
    for node in reached(module, making):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in touched:
            raise CannotRewrite(f"batches are made with {ast.unparse(node)}, as is the rest")
    used = _expressions(others, hoisted)
    own = stored(making)
    for node in (each for one in making for each in ast.walk(one)):
        if not isinstance(node, ast.Call):
            continue
        if not _may_move(module, node):
            raise CannotRewrite(f"batches are made with {ast.unparse(node.func)}()")
        local = function_of(module, node.func)
        if isinstance(local, FUNCTIONS):
            for text in _kept(local):
                if text in used:
                    raise CannotRewrite(f"making batches changes {text}, which the loop reads")
            continue
        if not isinstance(node.func, ast.Attribute):
            continue
        asked = node.func.value
        held = root(asked)
        theirs = held in own or not held or _imported(module, asked)
        if not theirs and ast.unparse(asked) in used:
            raise CannotRewrite(f"batches are made with {ast.unparse(asked)}, as is the rest")


def _touched(module: Module, others: Sequence[ast.stmt]) -> set[str]:
    """The attributes that methods change, or call something of, which the others call."""
    here = {id(node) for each in others for node in ast.walk(each)}
    found: set[str] = set()
    for node in reached(module, others):
        if id(node) in here:
            continue
        asked = [*assigned(node)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked.append(node.func.value)
        found |= {ast.unparse(each) for each in asked if isinstance(each, ast.Attribute)}
    return {each for each in found if each.startswith("self.")}


def _kept(function: Function) -> set[str]:
    """The attributes that a method changes, as source: `self.offset`."""
    return {
        ast.unparse(target)
        for node in ast.walk(function)
        for target in assigned(node)
        if isinstance(target, ast.Attribute)
    }


def _expressions(statements: Iterable[ast.stmt], but: Iterable[ast.expr]) -> set[str]:
    """The source of every name and attribute that some statements mention elsewhere."""
    gone = {id(node) for each in but for node in ast.walk(each)}
    return {
        ast.unparse(node)
        for each in statements
        for node in ast.walk(each)
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in gone
    }
