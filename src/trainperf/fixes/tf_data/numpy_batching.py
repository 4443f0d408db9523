"""A loop that makes its own batches while the model waits."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import cores
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.tf_data.edits.generators import AHEAD_OF, IN_PARALLEL, make_apart, put_in
from trainperf.fixes.tf_data.edits.mapped import call_at, parsed, yields
from trainperf.model import Equivalence, Evidence, Finding, FunctionCost, Site, is_taken
from trainperf.rewrite import Script
from trainperf.source.bodies import calls_in, function_of, reached
from trainperf.source.iterations import arguments, carried, declared, loaded, stored
from trainperf.source.module import Module
from trainperf.source.mutations import (
    changed_by,
    changed_in_calls,
    changed_in_place,
    changes_shared,
)
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import assigned, made_here, names_in, root

REAL_SHARE = 0.10
"""The share of a step below which a function is not worth moving, as for pipeline stages."""

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


class NumpyBatching(Fix):
    """Make the next batch while the model computes, in a thread.

    ## Why it is slow
    The loop makes each batch in Python and NumPy between two steps.
    The model waits for it, and then Python waits for the model.

    ## What changes
    What makes a batch moves into a generator, which a thread runs up to four batches ahead
    of the step. Batches stay the same, in the same order. Where each is made by itself, as many
    threads as there are cores are tried as well; these draw random numbers in another order.
    In a `tf.data.Dataset`, as TensorFlow ops in a `map`, it also runs on several cores.

    ## When not to
    When the next batch depends on the result of this one, as in reinforcement learning.
    When the rest of the loop draws random numbers from the same generator: in another order.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a function of the user's that makes batches between the steps."""
        if evidence.loop.kind != "call":
            return None
        making = [each for each in evidence.functions if _makes_batches(each)]
        if not making:
            return None
        function = max(making, key=lambda each: each.share)
        share = min(1.0, sum(each.share for each in making))
        saved = share * evidence.times.real
        if is_taken(evidence.times.resident_):
            bound = evidence.bound_if_input_saves(saved)
        else:
            bound = evidence.bound_if_step_saves(saved)
        if not worth(evidence, bound):
            return None
        named = not function.name.startswith("<")
        name = f"`{function.name}`" if named else "The loop's own code"
        beneath = f", most of it in `{function.calls_into}`" if function.calls_into else ""
        others = f"; with what else makes batches, {percent(share)}" if len(making) > 1 else ""
        making_at = Site(function.file, function.line, function.name)
        step, width = evidence.loop.where, cores(evidence)
        return self.finding(
            title="The model waits while the loop makes its batch",
            text=(
                f"{name} ({_place(function)}) takes {percent(function.share)} of each "
                f"{ms(evidence.times.real)} step{beneath}{others}. The model waits for it."
            ),
            bound=bound,
            bound_basis="making batches fully overlapped with the step",
            where=(step,) if step is not None and step.exact else (making_at,),
            advice="Make batches ahead of the step: in a thread, or a `tf.data.Dataset`.",
            snippet=_snippet(making),
            data={} if width < 2 else {"variants": [{"calls": 1}, {"calls": width}]},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Let a thread make the batches of the loop around the step."""
        for site in finding.where:
            make_batches_ahead(script, site, finding.data.get("calls", 1))


def _makes_batches(function: FunctionCost) -> bool:
    seen = function.samples >= ENOUGH and function.share >= REAL_SHARE
    return function.thread == "main" and seen and function.calls_into not in TRAINING


def _place(function: FunctionCost) -> str:
    return at(Site(function.file, function.line))


def _snippet(making: list[FunctionCost]) -> str:
    names = [each.name for each in making if each.name.isidentifier()]
    name = next((each for each in names if "batch" in each.lower()), "make_batch")
    return f"""\
def batches():
    while True:
        # what your loop calls for a batch, with its arguments
        yield tuple({name}())


like = tuple(tf.TensorSpec(a.shape, a.dtype) for a in next(batches()))
dataset = tf.data.Dataset.from_generator(batches, output_signature=like)
dataset = dataset.prefetch(tf.data.AUTOTUNE)  # while the model computes

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


def make_batches_ahead(script: Script, site: Site, calls: int = 1) -> None:
    """Let a thread make the batches of the loop around the step that is called at `site`.

    With more `calls`, so many threads make a batch each. Raises `CannotRewrite` where a batch
    may depend on what the step before did, or then on the batch before.
    """
    module = parsed(script, site.file)
    node, statement = _loop(script, site)
    generator = _generator_call(module, node.iter)
    if generator is not None:
        call, function = generator
        _check_generator(module, call, function, node.body)
        if calls > 1:
            make_apart(script, Site(site.file, function.lineno), calls)
            return
        helper = put_in(script, site.file, AHEAD_OF)
        script.wrap_call(script.site_of(site, call), f"{helper}({{}})")
        return
    step = call_at(script, module, site)
    loop = _parts(module, node, statement, step)
    results = {name: name for name in _results(loop)}
    _check(module, loop)
    if calls > 1:
        _check_apart(module, loop)
    for each in loop.hoisted:
        name = script.free_name(site.file, *PARTS, beside=results)
        place = script.site_of(site, each)
        text = script.expression(place)
        results[name] = ast.unparse(each) if "\n" in text else text
        script.replace_call(place, name)
    if calls > 1:
        _in_parallel(script, site, loop, results, calls)
        return
    helper = put_in(script, site.file, AHEAD_OF)
    name = script.free_name(site.file, "batches", "make_batches")
    script.loop_part_into_generator(
        Site(site.file, node.lineno),
        (len(loop.leading), len(loop.leading) + len(loop.making)),
        name,
        results,
        f"{helper}({{}})",
    )


def _check_apart(module: Module, loop: Loop) -> None:
    """Refuse batches that several threads could not make, each its own."""
    if loop.leading:
        raise CannotRewrite("the loop does something else before it makes its batch")
    changed = changes_shared(module, [*loop.making, *map(ast.Expr, loop.hoisted)])
    if changed:
        raise CannotRewrite(f"the batches are not made apart: {changed}")


def _in_parallel(
    script: Script, site: Site, loop: Loop, results: dict[str, str], calls: int
) -> None:
    """Let several threads make a batch each, where it is made at the beginning of the loop."""
    item = script.free_name(site.file, "item", "each_item")
    name = script.free_name(site.file, "make_batch", "make_one_batch")
    call = f"{put_in(script, site.file, IN_PARALLEL)}({name}, {{}}, calls={calls})"
    at = Site(site.file, loop.node.lineno)
    script.loop_part_into_function(at, len(loop.making), (name, item), results, call)


def _loop(script: Script, site: Site) -> tuple[ast.For, ast.stmt]:
    """The innermost loop around a step in its function, and which statement of it holds that."""
    around = script.around(site)
    for outer, inner in reversed(list(pairwise(around))):
        if isinstance(outer, FUNCTIONS):
            break
        if isinstance(outer, ast.While) and inner in outer.body:
            raise CannotRewrite("the step is called in a `while` loop")
        if isinstance(outer, ast.For) and inner in outer.body:
            return outer, inner
    raise CannotRewrite("the step is not called in a `for` loop of its function")


# ------------------------------------------------------------ batches of a generator


def _generator_call(module: Module, node: ast.expr) -> tuple[ast.Call, Function] | None:
    """The call of a generator of this file that a loop goes over, `enumerate` and all."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            found = function_of(module, each.func)
            if isinstance(found, FUNCTIONS) and yields(found):
                return each, found
    return None


def _check_generator(
    module: Module, call: ast.Call, function: Function, body: Sequence[ast.stmt]
) -> None:
    check_calls(module, [*function.body, call], body)
    own = stored(function.body) | arguments(function)
    changed = changed_by(body) | changed_in_calls(module, body)
    for name in sorted((names_read(module, function.body) - own) | names_in(call)):
        if name in changed:
            raise CannotRewrite(f"the loop changes {name}, of which batches are made")


# ----------------------------------------------------- batches made in the loop's body


def _parts(module: Module, node: ast.For, statement: ast.stmt, step: ast.Call) -> Loop:
    """Take a loop's body apart: the first run of statements that only make things."""
    if node.orelse:
        raise CannotRewrite("the loop has an `else`")
    before = node.body[: node.body.index(statement)]
    movable = [makes(module, each) for each in before]
    given = [*step.args, *(each.value for each in step.keywords)]
    worked = [each for each in given if any(isinstance(n, WORK) for n in ast.walk(each))]
    hoisted = [each for each in worked if makes(module, ast.Expr(each))]
    first = movable.index(True) if True in movable else len(before)
    end = movable.index(False, first) if False in movable[first:] else len(movable)
    whole = len(hoisted) == len(worked) and statement in node.body and _plain(statement)
    if not whole or loaded(hoisted) & changed_by(before[end:]):
        hoisted = []
    if True not in movable and not hoisted:
        raise CannotRewrite("nothing in the loop makes the batch ahead of its step")
    if any(isinstance(each, JUMPS) for one in node.body[:first] for each in ast.walk(one)):
        raise CannotRewrite("the loop may go on before it makes the batch")
    scope = module.function(node) or module.scope(node).node
    parts = node.body[:first], node.body[first:end], node.body[end:]
    return Loop(node, *parts, hoisted, scope)


def _plain(statement: ast.stmt) -> bool:
    """Whether a step is called whenever its statement is reached."""
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.AnnAssign)


def _results(loop: Loop) -> list[str]:
    """The names that the rest of the loop, and what follows it, needs of the batch."""
    made = stored([loop.node.target]) | stored(loop.making)
    moved = [*loop.making, *loop.hoisted, loop.node.iter]
    inside = {id(each) for one in moved for each in ast.walk(one)}
    read = {
        each.id
        for each in ast.walk(loop.scope)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in inside
    }
    order = [each.id for each in ast.walk(loop.node) if isinstance(each, ast.Name)]
    ordered = [name for name in dict.fromkeys(order) if name in made & read]
    if not ordered and not loop.hoisted:
        raise CannotRewrite("what the step is given is not made in the loop")
    given = [*(ast.parse(each).body[0] for each in ordered), *map(ast.Expr, loop.hoisted)]
    name = carried([*loop.making, *given], stored([loop.node.target]))
    if name:
        raise CannotRewrite(f"a batch needs what the one before left in {name}")
    return ordered


def _check(module: Module, loop: Loop) -> None:
    """Raise `CannotRewrite` where the batch needs what the loop does in its other statements."""
    targets, others = stored([loop.node.target]), [*loop.leading, *loop.rest]
    parts = [loop.node.target, *getattr(loop.node.target, "elts", [])]
    if not all(isinstance(each, ast.Name | ast.Tuple | ast.List) for each in parts):
        raise CannotRewrite("the loop counts in something that others see")
    own = stored(loop.making) | targets
    if isinstance(loop.scope, ast.ClassDef) or own & declared(loop.scope):
        raise CannotRewrite("the loop gives values to names beyond its function")
    if own & names_in(loop.node.iter):
        raise CannotRewrite("the loop changes what it goes over")
    ahead = (loaded(loop.leading) | stored(loop.leading)) & stored(loop.making)
    if ahead:
        raise CannotRewrite(f"the loop has to do with {min(ahead)} before it makes it")
    changed = changed_by(others) - (own - stored(loop.leading))
    changed |= changed_in_calls(module, others)
    for name in sorted(names_read(module, [*loop.making, *loop.hoisted, loop.node.iter])):
        if name in changed:
            raise CannotRewrite(f"the loop changes {name}, of which batches are made")
    making = [*loop.making, *map(ast.Expr, loop.hoisted)]
    seen = changed_in_place(making) | changed_in_calls(module, making)
    seen -= made_here(loop.making)
    if seen:  # by the step, if it is the batch
        raise CannotRewrite(f"making batches changes {min(seen)}, which others see")
    check_calls(module, [*loop.making, *loop.hoisted], others, loop.hoisted)


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
