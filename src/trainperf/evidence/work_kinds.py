"""Kinds of work in a piece of the user's source, told from its syntax alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.model.facts import WorkKind

WEIGHTS = frozenset(
    [
        *("grad", "grads", "gradients", "param_groups", "parameters", "params", "state_dict"),
        *("trainable_variables", "trainable_weights", "weights"),
    ]
)
"""Names of which an evaluation has none: an update runs without gradients as well."""

TRAINS = frozenset(["backward", "GradientTape", "apply_gradients", "train_on_batch", "fit"])
"""Calls by which a function shows that it makes the training step itself."""

PREDICTS = frozenset(["eval", "evaluate", "predict", "predict_on_batch", "test_on_batch"])
WITHOUT_GRADIENTS = frozenset(["no_grad", "inference_mode"])
COUNTS = ("range", "enumerate", "trange", "tqdm")

Piece = tuple[WorkKind, ast.stmt]


def holds_the_step(tree: ast.AST) -> bool:
    """Whether the step itself stands in it, so that its time is the step's."""
    return bool(_called(tree) & TRAINS)


def statements(tree: ast.AST, holds: bool) -> Iterator[Piece]:
    """The outermost statements of known kinds, each with its kind.

    `holds` says that the step stands in the same function: there, an evaluation is told as a
    statement, elsewhere it is the whole function.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt) and (kind := _of_statement(node, holds)) is not None:
            yield kind, node
        else:
            yield from statements(node, holds)


def evaluates(node: ast.AST) -> bool:
    """Whether a model is evaluated in it: without gradients, or by a call of that name."""
    called = _called(node)
    if called & PREDICTS:
        return True
    loops = any(isinstance(each, ast.For) for each in ast.walk(node))
    return loops and bool(called & WITHOUT_GRADIENTS) and not _names(node) & WEIGHTS


def _of_statement(node: ast.stmt, holds: bool) -> WorkKind | None:
    if _called(node) & TRAINS:
        return None
    if isinstance(node, ast.For) and _steps_a_cell(node):
        return "recurrence"
    around = isinstance(node, ast.If | ast.With | ast.For)
    return "evaluation" if holds and around and evaluates(node) else None


def _steps_a_cell(loop: ast.For) -> bool:
    """Whether a loop calls something for each step of a sequence and hands on what it returned.

    A loop over layers (`x = layer(x)`) calls another thing each time; one over rounds on the
    same input does not take a step of it.
    """
    targets = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    counts = isinstance(loop.iter, ast.Call) and _last(loop.iter.func) in COUNTS
    for node in (each for one in loop.body for each in ast.walk(one)):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        if targets & _plain_names(call.func):
            continue
        given = [*call.args, *(each.value for each in call.keywords)]
        read = set().union(*(_plain_names(each) for each in given)) if given else set()
        made = set().union(*(_plain_names(each) for each in node.targets))
        if made & read and _takes_a_step(loop, given, targets, counts):
            return True
    return False


def _takes_a_step(loop: ast.For, given: list[ast.expr], targets: set[str], counts: bool) -> bool:
    """Whether the call is given what stands at this turn: an element, or `x[:, t]`."""
    taken = set(targets) if not counts else set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and _indexed(node.value, targets):
            taken |= set().union(*(_plain_names(each) for each in node.targets))
    return any(_indexed(each, targets) or taken & _plain_names(each) for each in given)


def _indexed(node: ast.expr, targets: set[str]) -> bool:
    return any(
        isinstance(each, ast.Subscript) and targets & _plain_names(each.slice)
        for each in ast.walk(node)
    )


def _called(tree: ast.AST) -> set[str]:
    """The last names of all that is called in it."""
    return {_last(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call)}


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _names(tree: ast.AST) -> set[str]:
    """The names and attributes that stand in it."""
    return {
        each.attr if isinstance(each, ast.Attribute) else each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Attribute | ast.Name)
    }


def _plain_names(tree: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
