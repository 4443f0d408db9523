"""The record of a loop once its blocks are done, or once it ended before that."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..process import frames, turns
from ..process.process import Attempt, Unseen, in_words
from . import cycles
from .budget import Budget

if TYPE_CHECKING:
    from .loops import Extra

PROBES = "probes"
ALONE = "not taken where several processes train together"
USUAL_S = 10.0
"""Seconds of the stages, or of the probes, of a script that is not slow."""

_FIT = {"batch_size", "callbacks", "epochs", "steps_per_epoch", "validation_data"}
"""Arguments of which a `fit` that trains a model has one, and that of a scaler has none."""

_UPDATES = {"apply_gradients", "backward", "train_on_batch"}
"""Methods that stand in a loop which updates weights."""

_MOST = 5


def describe(driver: Any) -> None:
    """Record what the loop is: all blocks are done."""
    driver.reads.close(_source(driver))
    driver.record.write("facts", **_description(driver))
    record_length(driver)


def extras(driver: Any) -> list[Extra]:
    """The extra measurements in order; several ranks leave out what they cannot do in step."""
    found = [*driver.exchange_extras(), *driver.extras]
    if driver.world is None or driver.loops.probes_in_step:
        return found
    lacks(driver, PROBES, ALONE)
    return [one for one in found if one[0] != PROBES]


def measure(driver: Any, extras: Iterable[Extra]) -> None:
    """Take the extra measurements, as far as there is time; a fault ends only its own."""
    budget = Budget.of(driver)
    deadline = budget.extra_by(driver.clock())
    for name, extra in extras:
        if driver.clock() > deadline and name != "facts":  # they cost little, and all need them
            lacks(driver, name, budget.lacking(USUAL_S, driver.clock()))
            continue
        driver.record.write("phase", p=name, b=0)
        driver.record.flush()
        try:
            with Unseen(driver.process):
                extra(deadline)
        except Exception as error:
            lacks(driver, name, in_words(error))
    driver.record.write("measured")


def lacks(driver: Any, name: str, reason: str) -> None:
    """Record why an extra measurement was not taken; of the probes, why each of them was not."""
    names: tuple[str, ...] = ()
    with Attempt(driver.process, "naming the probes"):
        names = driver.probe_names() if name == PROBES else ()
    for what in names or (name,):
        driver.record.write("missing", what=what, reason=reason)


def around(driver: Any) -> cycles.Cycles | None:
    """Record the other loops in the source; return the turns around this one, if it has any."""
    with Attempt(driver.process, "what stands around the loop"):
        for one in other_loops():
            driver.record.write("other", **one)
        return cycles.wanted(driver)
    return None


def describe_early(driver: Any) -> None:
    """The loop ended by itself before all was measured: record what is cheap to know."""
    driver.reads.close(_source(driver))
    with Attempt(driver.process, "describing a loop that is over"), Unseen(driver.process):
        driver.record.write("early", **_description(driver))
        for name, extra in driver.extras:
            if name == "facts":
                extra(driver.clock())


def _source(driver: Any) -> Any:
    with Attempt(driver.process, "the dataset of the loop"):
        return driver.source()
    return None


def _description(driver: Any) -> dict[str, Any]:
    with Attempt(driver.process, "describing the loop"):
        found: dict[str, Any] = driver.describe()
        return found
    return {}


def record_length(driver: Any) -> None:
    """Record the loops that hold the step under way, and what a trainer says of its length."""
    with Attempt(driver.process, "how long the training is to be"):
        driver.record.write("length", loops=turns.around(), trainer=_trainer(sys._getframe(1)))


def _trainer(frame: FrameType | None) -> dict[str, Any] | None:
    """The length as a trainer among the callers has it; None where there is none."""
    while frame is not None:
        owner: Any = frame.f_locals.get("self") if frame.f_code.co_argcount else None
        steps, epochs = None, None
        if frame.f_code.co_name == "_inner_training_loop":  # Transformers', worked out as it begins
            steps = owner.state.max_steps
        elif type(owner).__name__ in ("_FitLoop", "FitLoop"):  # Lightning's: whichever is earlier
            steps, epochs = owner.trainer.max_steps, owner.max_epochs
        else:
            frame = frame.f_back
            continue
        return {"name": "Trainer", "steps": _count(steps), "epochs": _count(epochs)}
    return None


def _count(number: Any) -> int | None:
    """A number of steps or epochs, None for no end."""
    return int(number) if number is not None and number > 0 else None


def other_loops() -> list[dict[str, Any]]:
    """The calls of `fit`, and the loops that train, in which the program does not stand now.

    They are read off the file that holds the user's innermost line; each has the "what" it is.
    """
    path, lines = _standing()
    if not path:
        return []
    nodes = turns.nodes_of(path)
    found = [
        {"what": what, "file": path, "line": node.lineno}
        for what, node in _training(nodes)
        if not any(_holds(outer, lines) for outer in (node, *_loops_around(nodes, node)))
    ]
    return sorted(found, key=lambda one: int(one["line"]))[:_MOST]


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


def _training(nodes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The calls of `fit`, and of each nest of loops with updates the innermost with its own."""
    steps = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and _updates(node)}
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fit":
            if _FIT & {keyword.arg for keyword in node.keywords}:
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
    return isinstance(called, ast.Attribute) and (
        called.attr in _UPDATES or (called.attr == "apply" and "opt" in _name(called.value).lower())
    )


def _name(node: ast.expr) -> str:
    """The last name of `a`, `self.a`; "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _loops_around(nodes: Iterable[Any], node: Any) -> list[Any]:
    loops = (outer for outer in nodes if isinstance(outer, (ast.For, ast.While)))
    return [loop for loop in loops if _holds(loop, {node.lineno})]


def _holds(node: Any, lines: set[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)
