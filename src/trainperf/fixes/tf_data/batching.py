"""A loop that makes its own batches while the model waits."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import REAL_SHARE, cores
from trainperf.fixes.common.words import at, if_measured, ms, percent
from trainperf.fixes.tf_data._source import put_in, yields
from trainperf.fixes.tf_data.generator import (
    AHEAD_OF,
    IN_PARALLEL,
    made_for_rest,
    make_apart,
    plain_target,
)
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    FunctionCost,
    Missing,
    Site,
    Variant,
    is_taken,
)
from trainperf.rewrite import Script
from trainperf.source.bodies import function_of, reached
from trainperf.source.effects import changed_names, changes_shared, effects, filled_names
from trainperf.source.iterations import arguments, declared, loaded, outside, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import called, names_in

ENOUGH = 30
"""Stack samples of a function below which its share is a guess."""

TRAINING = {
    "fit", "train_on_batch", "test_on_batch", "predict_on_batch", "evaluate", "predict",
    "gradient", "apply_gradients", "apply", "minimize", "__call__", "error_handler",
    "op_dispatch_handler", "numpy", "_numpy", "__array__", "__float__", "block_on",
}  # fmt: skip
"""A function mostly found in these is the training itself, not the making of a batch.
`error_handler` and `op_dispatch_handler` are what Keras and TensorFlow wrap calls in;
`numpy` waits for a result."""

WEIGHTS = re.compile(r"\b[gs]et_weights\b|\bassign(_add|_sub)?\b")
"""What reads or writes the weights that a step trains: it cannot be done ahead of the step."""


class NumpyBatching(Fix):
    """Make the next batch while the model computes, in a thread.

    Why slow: The loop makes each batch in Python and NumPy between two steps: the model waits for
    it, and then Python waits for the model.
    Changes: What makes a batch moves into a generator, which a thread runs up to four batches
    ahead of the step. Batches stay the same, in the same order. Where each is made by itself, as
    many threads as there are cores are tried as well; these draw random numbers in another order.
    When not: When the next batch depends on the result of this one, as in reinforcement learning.
    When the rest of the loop draws random numbers from the same generator: in another order.
    """

    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a function of the user's that makes batches between the steps."""
        making = [
            function
            for function in evidence.functions
            if function.thread == "main"
            and function.samples >= ENOUGH
            and function.share >= REAL_SHARE
            and function.calls_into not in TRAINING
            and not _needs_step(function, evidence)
        ]
        if evidence.loop.kind != "call" or not making:
            return None
        function = max(making, key=lambda function: function.share)
        share = min(1.0, sum(function.share for function in making))

        def ratio() -> float:
            saved = share * evidence.times.real
            if is_taken(evidence.times.resident_):
                return evidence.bound_if_input_saves(saved)
            return evidence.bound_if_step_saves(saved)

        name = "The loop's own code" if function.name.startswith("<") else f"`{function.name}`"
        step = if_measured(lambda: f" {ms(evidence.times.real)}")
        beneath = f", most of it in `{function.calls_into}`" if function.calls_into else ""
        others = f"; with what else makes batches, {percent(share)}" if len(making) > 1 else ""
        place = Site(function.file, function.line, function.name)
        called, width = evidence.loop.where, cores(evidence)
        names = [function.name for function in making if function.name.isidentifier()]
        maker = next((name for name in names if "batch" in name.lower()), "make_batch")
        return Cause(
            title="The model waits while the loop makes its batch",
            text=f"{name} ({at(place)}) takes {percent(function.share)} of each{step} step"
            f"{beneath}{others}. The model waits for it.",
            saves=Saving("making batches fully overlapped with the step", ratio=ratio, of="all"),
            where=(called,) if called is not None and called.exact else (place,),
            snippet=SNIPPET.format(maker=maker),
            variants=tuple(Variant({"calls": calls}) for calls in (1, width)) if width > 1 else (),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Let a thread make the batches of the loop around the step, or as many as "calls" says.

        Raises `CannotRewrite` where a batch may depend on what the step before did, or then on the
        batch before.
        """
        site, calls = finding.where[0], finding.data.get("calls", 1)
        module = script.linked(site.file)
        node, statement = _loop(script, site)
        call, function = _generator(module, node.iter)
        if call is not None and function is not None:
            _check_calls(module, [*function.body, call], node.body)
            own = stored(function.body) | arguments(function)
            read = (_names_read(module, function.body) - own) | names_in(call)
            _check_unchanged(read & changed_names(module, node.body))
            if calls > 1:
                make_apart(script, Site(site.file, function.lineno), calls)
            else:
                helper = put_in(script, site.file, AHEAD_OF)
                script.wrap_call(script.site_of(site, call), f"{helper}({{}})")
            return
        loop = _parts(module, node, statement, script.call(site))
        names, left = made_for_rest(node, loop.making, loop.hoisted, loop.scope)
        if left or not (names or loop.hoisted):
            raise CannotRewrite(f"a batch is not made in the loop, or of what was left in {left}")
        _check(module, loop)
        shared = changes_shared(module, [*loop.making, *map(ast.Expr, loop.hoisted)])
        if calls > 1 and (shared or loop.leading):
            raise CannotRewrite(
                f"the batches are not made apart: {shared or 'the loop begins else'}"
            )
        results = {name: name for name in names}
        for value in loop.hoisted:
            name = script.free_name(site.file, *PARTS, beside=results)
            place = script.site_of(site, value)
            text = script.expression(place)
            results[name] = ast.unparse(value) if "\n" in text else text
            script.replace_call(place, name)
        at = Site(site.file, node.lineno)
        if calls == 1:
            first, last = len(loop.leading), len(loop.leading) + len(loop.making)
            ahead = f"{put_in(script, site.file, AHEAD_OF)}({{}})"
            name = script.free_name(site.file, "batches", "make_batches")
            script.loop_part_into_generator(at, (first, last), name, results, ahead)
            return
        item = script.free_name(site.file, "item", "each_item")
        name = script.free_name(site.file, "make_batch", "make_one_batch")
        made = f"{put_in(script, site.file, IN_PARALLEL)}({name}, {{}}, calls={calls})"
        script.loop_part_into_function(at, len(loop.making), (name, item), results, made)


def _needs_step(cost: FunctionCost, evidence: Evidence) -> bool:
    """Whether a function reads or writes weights, or comes after the step in a turn of the loop."""
    place, step = Site(cost.file, cost.line, cost.name), evidence.loop.where
    lines = () if isinstance(evidence.lines_, Missing) else evidence.lines.lines
    stepping = (line for line in lines if step is not None and _spot(line.where) == _spot(step))
    turn = next(((*line.callers, step) for line in stepping), (step,))
    own = [line for line in lines if _spot(line.where)[:2] == _spot(place)[:2]]
    if _spot(place)[:2] in (_spot(other)[:2] for other in turn if other):  # it holds the step
        own = [line for line in own if line.where.line == place.line]
    if any(map(WEIGHTS.search, (cost.calls_into, *(f"{line.text} {line.call}" for line in own)))):
        return True
    path = next(((*line.callers, line.where) for line in own), (place,))
    for place, other in zip(path, turn, strict=False):
        if other and _spot(place) != _spot(other):
            same = _spot(place)[:2] == _spot(other)[:2]
            return same and place.line > max(other.line, other.end_line)
    return False


def _spot(place: Site) -> tuple[str, str, int]:
    """The file, the function (without the class of a method) and the line of a place."""
    return place.file, place.function.rpartition(".")[2], place.line


SNIPPET = """\
def batches():
    while True:
        yield tuple({maker}())  # what your loop calls for a batch, with its arguments


like = tuple(tf.TensorSpec(a.shape, a.dtype) for a in next(batches()))
dataset = tf.data.Dataset.from_generator(batches, output_signature=like).prefetch(4)
for batch in dataset.take(steps):
    model.train_on_batch(*batch)
"""

WORK = (ast.Call, ast.Subscript, ast.BinOp, ast.ListComp)
"""Parts of an argument of the step that make it more than a name."""

PARTS = ("batch_x", "batch_y", "batch_z", "batch_3", "batch_4", "batch_5", "batch_6")
"""Names for parts of a batch that have none yet."""


@dataclass(frozen=True)
class Loop:
    """A loop around a step: what it does first, what makes the batch, and the rest."""

    node: ast.For
    leading: list[ast.stmt]
    making: list[ast.stmt]
    rest: list[ast.stmt]
    hoisted: list[ast.expr]
    """Arguments of the step that are worked out in the call."""
    scope: ast.AST
    """The function around it, or the module."""


def _loop(script: Script, site: Site) -> tuple[ast.For, ast.stmt]:
    """The innermost loop around a step in its function, and which statement of it holds that."""
    for outer, inner in reversed(list(pairwise(script.around(site)))):
        if isinstance(outer, ast.For) and inner in outer.body:
            return outer, inner
        if isinstance(outer, (*FUNCTIONS, ast.While)):
            break
    raise CannotRewrite("the step is not called in a `for` loop of its function")


def _generator(module: Module, over: ast.expr) -> tuple[ast.Call, Function] | tuple[None, None]:
    """The call of a generator of this file that a loop goes over, `enumerate` and all."""
    for node in ast.walk(over):
        found = function_of(module, node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(found, FUNCTIONS) and yields(found):
            return node, found
    return None, None


def _check_unchanged(changed: set[str]) -> None:
    if changed:
        raise CannotRewrite(f"the loop changes {min(changed)}, of which batches are made")


def _parts(module: Module, node: ast.For, statement: ast.stmt, step: ast.Call) -> Loop:
    """Take a loop's body apart: the first run of statements that only make things."""
    before = node.body[: node.body.index(statement)]
    movable = [_only_makes(module, made) for made in before]
    given = [*step.args, *(keyword.value for keyword in step.keywords)]
    worked = [value for value in given if any(isinstance(part, WORK) for part in ast.walk(value))]
    hoisted = [value for value in worked if _only_makes(module, ast.Expr(value))]
    first = movable.index(True) if True in movable else len(before)
    end = movable.index(False, first) if False in movable[first:] else len(movable)
    always = isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.AnnAssign)
    if (
        len(hoisted) < len(worked)
        or not always
        or loaded(hoisted) & changed_names(module, before[end:])
    ):
        hoisted = []
    if True not in movable and not hoisted:
        raise CannotRewrite("nothing in the loop makes the batch ahead of its step")
    leading = (part for made in before[:first] for part in ast.walk(made))
    if any(isinstance(part, ast.Break | ast.Continue) for part in leading):
        # what it leaves out may not be there to be made, which a trial need not meet
        raise CannotRewrite("the loop may go on before it makes the batch")
    scope = module.function(node) or module.scope(node).node
    parts = node.body[:first], node.body[first:end], node.body[end:]
    return Loop(node, *parts, hoisted, scope)


def _check(module: Module, loop: Loop) -> None:
    """Raise `CannotRewrite` where the batch needs what the loop does in its other statements."""
    others = [*loop.leading, *loop.rest]
    own = stored(loop.making) | stored([loop.node.target])
    visible = isinstance(loop.scope, ast.ClassDef) or own & declared(loop.scope)
    if visible or not plain_target(loop.node):
        raise CannotRewrite("the loop gives values to what others see")
    ahead = (loaded(loop.leading) | stored(loop.leading)) & stored(loop.making)
    if ahead:
        raise CannotRewrite(f"the loop has to do with {min(ahead)} before it makes it")
    changed = changed_names(module, others) - (own - stored(loop.leading))
    _check_unchanged(changed & _names_read(module, [*loop.making, *loop.hoisted, loop.node.iter]))
    making = [*loop.making, *map(ast.Expr, loop.hoisted)]
    if seen := filled_names(module, making, own=False):  # by the step, if it is the batch
        raise CannotRewrite(f"making batches changes {min(seen)}, which others see")
    _check_calls(module, [*loop.making, *loop.hoisted], others, loop.hoisted)


MODEL = frozenset(
    {
        "assign", "assign_add", "assign_sub", "evaluate", "get_weights", "gradient", "predict",
        "predict_on_batch", "reset_metrics", "set_weights", "test_on_batch", "train_step",
        "update_state",
    }
)  # fmt: skip
"""Methods of models, optimizers, metrics and variables: they stay in the loop."""

SAID = ("input", "time.", "tensorflow.summary.", "wandb.", "datetime.")
"""Calls, by the start of their names, whose moment matters."""

PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.If, ast.Expr)
LEAVES = (
    ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr,
    ast.Break, ast.Continue,
)  # fmt: skip


def _only_makes(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement only makes things, so that it may be done before its time."""
    leaves = not isinstance(statement, PLAIN) or any(
        isinstance(node, LEAVES) for node in ast.walk(statement)
    )
    return not leaves and not _stays(module, [statement])


def _stays(module: Module, code: Sequence[ast.AST]) -> str:
    """What of some code has to do with models, or with the moment it is done; '' if nothing."""
    for effect in effects(module, code):
        call = effect.node
        if not isinstance(call, ast.Call) or called(call) == "next":
            continue
        plain = isinstance(call.func, ast.Name) and not _imported(effect.module, call.func)
        doubt = effect.kind in ("unknown", "draws") and not effect.within
        model = plain and doubt  # `model(noise)`: a model, a layer
        timed = (effect.module.name(call.func) or "").startswith(SAID)
        if effect.kind in ("steers", "writes") or called(call) in MODEL or model or timed:
            return effect.text
    return ""


def _imported(module: Module, node: ast.expr) -> bool:
    """Whether a name, or what an attribute is of, is a module, imported, or built in."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    found = module.bindings(node)
    if not found:
        return node.id in dir(builtins)
    return all(binding.kind == "import" for binding in found)


def _names_read(module: Module, parts: Sequence[ast.AST]) -> set[str]:
    """The names that some code reads, and those of the module that its functions read."""
    found = [node for node in reached(module, parts) if isinstance(node, ast.Name)]
    top = {node.id for node in found if module.bindings(node) is module.top.find(node.id)}
    return loaded(parts) | top


def _check_calls(
    module: Module,
    making: Sequence[ast.AST],
    others: Sequence[ast.stmt],
    hoisted: Sequence[ast.expr] = (),
) -> None:
    """Raise where what makes batches asks an object that the rest of the loop has to do with."""
    if stays := _stays(module, making):
        raise CannotRewrite(f"batches are made with {stays}")
    asked, touched = _asked(module, making), _asked(module, others)
    rest = outside(others, hoisted)
    named = {ast.unparse(node) for node in rest if isinstance(node, ast.Name | ast.Attribute)}
    used = (node for node in reached(module, making) if isinstance(node, ast.Attribute))
    read = {ast.unparse(node) for node in used}
    for shared in sorted((asked & (named | touched)) | (read & touched)):
        raise CannotRewrite(f"batches are made with {shared}, as is the rest")


def _asked(module: Module, code: Sequence[ast.AST]) -> set[str]:
    """The objects, and attributes, of which code may change something: by setting, by a method."""
    found = set()
    for effect in effects(module, code):
        held: ast.AST = effect.node
        if isinstance(held, ast.Call):
            held = held.func.value if isinstance(held.func, ast.Attribute) else held
        if isinstance(held, ast.Name | ast.Attribute) and not _imported(module, held):
            found |= set() if effect.own else {ast.unparse(held)}
    return found
