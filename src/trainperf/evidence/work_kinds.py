"""Kinds of work in a piece of the user's source, told from its syntax alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.model.facts import WorkKind

IN_PLACE = frozenset(
    [
        *("add_", "addcdiv_", "addcmul_", "copy_", "div_", "lerp_", "mul_", "sqrt_", "sub_"),
        *("assign", "assign_add", "assign_sub"),
    ]
)
"""Methods that change one tensor or variable."""

GRADIENTS = frozenset(["grad", "grads", "gradients", "param_groups"])
"""Names of which an evaluation has none."""

PARAMETERS = GRADIENTS | frozenset(
    [
        *("parameters", "params", "state_dict"),
        *("trainable_variables", "trainable_weights", "weights"),
    ]
)
"""Names by which a loop shows that it goes over a model's parameters."""

TO_HOST = frozenset(["numpy", "tolist", "asnumpy"])
"""Methods that bring all elements of a tensor to Python; one number is read to log it as well."""

SCORES = frozenset(
    [
        *("accuracy_score", "average_precision_score", "classification_report"),
        *("confusion_matrix", "corpus_bleu", "f1_score", "fbeta_score", "jaccard_score"),
        *("mean_absolute_error", "mean_squared_error", "precision_recall_fscore_support"),
        *("precision_score", "r2_score", "recall_score", "roc_auc_score", "sentence_bleu"),
        *("DataFrame", "bleu_score", "meteor_score", "word_error_rate"),
    ]
)
"""Functions of libraries that judge predictions on the host."""

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

    `holds` says that the step stands in the same function: there, an evaluation and
    metrics are told statement by statement, elsewhere they are the whole function.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt) and (kind := _of_statement(node, holds)) is not None:
            yield kind, node
        else:
            yield from statements(node, holds)


def of_function(tree: ast.AST) -> WorkKind | None:
    """The kind of a function that does not hold the step; None where its source does not show."""
    called = _called(tree)
    if _evaluates(tree):
        return "evaluation"
    return "metrics" if called & (TO_HOST | SCORES) else None


def _of_statement(node: ast.stmt, holds: bool) -> WorkKind | None:
    if _called(node) & TRAINS:
        return None
    if isinstance(node, ast.For):
        if _goes_over_parameters(node):
            return "optimizer"
        if _steps_a_cell(node):
            return "recurrence"
    if not holds or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return None
    if isinstance(node, ast.If | ast.With | ast.For) and _evaluates(node):
        return "evaluation"
    plain = isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr)
    if plain and _called(node) & (SCORES | TO_HOST):
        return "metrics"
    return None


def _evaluates(node: ast.AST) -> bool:
    """Whether a model is evaluated in it: without gradients, or by a call of that name.

    An optimizer's step runs without gradients as well, and reads them.
    """
    called = _called(node)
    if called & PREDICTS:
        return True
    if _names(node) & GRADIENTS:
        return False
    loops = [each for each in ast.walk(node) if isinstance(each, ast.For)]
    updates = any(_goes_over_parameters(each) for each in loops)
    return bool(loops) and not updates and bool(called & WITHOUT_GRADIENTS)


def _goes_over_parameters(loop: ast.For) -> bool:
    """Whether a loop changes tensors of a model in place, one after the other."""
    if not _names(loop) & PARAMETERS:
        return False
    turn = _plain_names(loop.target)
    return any(_changes_in_place(node, turn) for node in ast.walk(loop))


def _changes_in_place(node: ast.AST, turn: set[str]) -> bool:
    """Whether it changes a tensor: what its loop goes over, by names of that, or another."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in IN_PLACE
    if isinstance(node, ast.AugAssign) and ("grad" in _names(node.value) or _is(node.target, turn)):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AugAssign) else targets
    return any(isinstance(one, ast.Attribute) and one.attr == "data" for one in targets)


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


def _is(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _plain_names(tree: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
