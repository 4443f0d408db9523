"""The record of a loop once its blocks are done, or once it ended before that."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from ..process import frames, turns
from ..process.process import Attempt, Unseen, in_words
from . import cycles
from .budget import Budget

if TYPE_CHECKING:
    from .loops import Extra

ALONE = "not taken where several processes train together"
USUAL_S = 10.0
"""Seconds of the stages, or of the probes, of a script that is not slow."""

_FIT = {"batch_size", "callbacks", "epochs", "steps_per_epoch", "validation_data"}
"""Arguments of which a `fit` that trains a model has one, and that of a scaler has none."""

_UPDATES = {"GradientTape", "apply_gradients", "backward", "train_on_batch"}
"""Methods, and what makes a tape, that stand in a loop which updates weights."""


def describe(driver: Any) -> None:
    """Record what the loop is: all blocks are done."""
    driver.reads.close(_source(driver))
    driver.record.write("facts", **_description(driver))
    record_length(driver)


def extras(driver: Any) -> list[Extra]:
    """The extra measurements in order; several ranks leave out what they cannot do in step."""
    found = [*driver.loops.exchange_extras(driver), *driver.extras]
    if driver.world is None or driver.loops.probes_in_step:
        return found
    driver.record.write("missing", what="probes", reason=ALONE)
    return [extra for extra in found if extra[0] != "probes"]


def measure(driver: Any, extras: Iterable[Extra]) -> None:
    """Take the extra measurements, as far as there is time; a fault ends only its own."""
    budget = Budget.of(driver)
    deadline = budget.extra_by(driver.clock())
    for name, extra in extras:
        if driver.clock() > deadline and name != "facts":  # they cost little, and all need them
            reason = budget.lacking(USUAL_S, driver.clock())
            driver.record.write("missing", what=name, reason=reason)
            continue
        driver.record.write("phase", p=name, b=0)
        driver.record.flush()
        try:
            with Unseen(driver.process):
                extra(deadline)
        except Exception as error:
            driver.record.write("missing", what=name, reason=in_words(error))
    driver.record.write("measured")


def around(driver: Any) -> cycles.Cycles | None:
    """Record the other loops in the source; return the turns around this one, if it has any."""
    with Attempt(driver.process, "what stands around the loop"):
        for where in other_loops():
            driver.record.write("other", where=where)
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
        return driver.batches.undistributed(driver.dataset())
    return None


def _description(driver: Any) -> dict[str, Any]:
    with Attempt(driver.process, "describing the loop"):
        found: dict[str, Any] = driver.describe()
        return found
    return {}


def record_length(driver: Any) -> None:
    """Record the loops that hold this step, their turns left at first and now, and a trainer's."""
    with Attempt(driver.process, "how long the training is to be"):
        left = driver.left, turns.left()
        driver.record.write("length", loops=turns.around(), trainer=_trainer(), left=left)


def _trainer() -> dict[str, Any] | None:
    """The length as a trainer among the callers has it; None where there is none."""
    library, loop = frames.trainer_around()
    if not library:
        return None
    if library == "transformers":  # worked out as its loop begins
        steps, epochs = loop.state.max_steps, None
    else:  # whichever is earlier
        steps, epochs = loop.trainer.max_steps, loop.max_epochs
    return {"name": "Trainer", "steps": _count(steps), "epochs": _count(epochs)}


def _count(number: Any) -> int | None:
    """A number of steps or epochs, None for no end."""
    return int(number) if number is not None and number > 0 else None


def other_loops() -> list[dict[str, Any]]:
    """The calls of `fit`, and the loops that train, in which the program does not stand.

    They are read off the file that holds the user's innermost line.
    """
    users = [
        (os.path.abspath(frame.f_code.co_filename), frames.line_of(frame))
        for frame in frames.users_frames()
    ]
    path = users[0][0] if users else ""
    nodes = turns.nodes_of(path) if users else ()
    loops = [node for node in nodes if isinstance(node, turns.LOOPS)]
    steps = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and _updates(node)}
    training = [loop for loop in loops if _updates(loop, steps)]
    fits = [
        node
        for node in nodes
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "fit"
        and _FIT & {keyword.arg for keyword in node.keywords}
    ]

    def here(node: Any) -> bool:
        return any(file == path and _holds(node, line) for file, line in users)

    found = [
        node.lineno
        for node in (*training, *fits)
        if not any(_holds(node, inner.lineno) for inner in training if inner is not node)
        and not any(here(outer) for outer in (node, *loops) if _holds(outer, node.lineno))
    ]
    return [{"file": path, "line": line} for line in sorted(found)]


def _updates(node: ast.AST, steps: Collection[str] = ()) -> bool:
    """Whether a loop or function updates weights, or calls one of `steps`."""
    functions = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    return any(
        function.attr in _UPDATES or function.attr in steps
        if isinstance(function, ast.Attribute)
        else getattr(function, "id", "") in steps
        for function in functions
    )


def _holds(node: Any, line: int) -> bool:
    return bool(node.lineno <= line <= (node.end_lineno or node.lineno))
