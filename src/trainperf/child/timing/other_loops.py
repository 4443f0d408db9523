"""Find the other places of the script's source in which it trains."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterator
from typing import Any

from ..process import frames

FIT = {"batch_size", "callbacks", "epochs", "steps_per_epoch", "validation_data"}
"""Arguments of which a `fit` that trains a model has one, and that of a scaler has none."""

UPDATES = {"apply_gradients", "backward", "train_on_batch"}
"""Methods that stand in a loop which updates weights."""

MOST = 5


def other_loops() -> list[dict[str, Any]]:
    """The calls of `fit`, and the loops that train, in which the program does not stand now.

    They are read off the file that holds the user's innermost line; each has the "what" it is.
    """
    path, lines = _standing()
    if not path:
        return []
    tree = ast.parse("".join(frames.lines_of(path)))
    found = [
        {"what": what, "file": path, "line": node.lineno}
        for what, node in _training(tree)
        if not any(_holds(outer, lines) for outer in _loops_that_hold(tree, node))
    ]
    return sorted(found, key=lambda one: int(one["line"]))[:MOST]


def _standing() -> tuple[str, set[int]]:
    """The file of the innermost line of the user's, and the lines in it that are under way."""
    frame, _ = frames.users_frame()
    path, lines = "", set()
    while frame is not None:
        own = os.path.abspath(frame.f_code.co_filename)
        if frames.is_users(own):
            path = path or own
            if own == path:
                lines.add(frames.line_of(frame))
        frame = frame.f_back
    return path, lines


def _training(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The calls of `fit`, and of each nest of loops with updates the innermost with its own."""
    steps = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _updates(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fit":
            if FIT & {keyword.arg for keyword in node.keywords}:
                yield "fit", node
        elif isinstance(node, (ast.For, ast.While)) and _updates(node, steps):
            yield "loop", node


def _updates(node: Any, steps: Collection[str] = ()) -> bool:
    """Whether a loop or function updates weights itself, or by a call of one of `steps`.

    What stands in a loop or a function within it does not count.
    """
    todo = list(node.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.Call) and (_is_update(node.func) or _name(node.func) in steps):
            return True
        todo.extend(ast.iter_child_nodes(node))
    return False


def _is_update(called: ast.expr) -> bool:
    """Whether a method of that name updates weights; `apply` is one of an optimizer only."""
    if not isinstance(called, ast.Attribute):
        return False
    return called.attr in UPDATES or (
        called.attr == "apply" and "opt" in _name(called.value).lower()
    )


def _name(node: ast.expr) -> str:
    """The last name of `a`, `self.a`; "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _loops_that_hold(tree: ast.Module, node: Any) -> Iterator[Any]:
    """The node itself, and the loops around it."""
    yield node
    for outer in ast.walk(tree):
        if isinstance(outer, (ast.For, ast.While)) and _holds(outer, {node.lineno}):
            yield outer


def _holds(node: Any, lines: set[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)
