"""A Python generator that feeds the pipeline."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import cores, is_dear, opening, takes, waits, worker_said
from trainperf.fixes.common.repeating import without_docstring
from trainperf.fixes.tf_data._source import LOAD, YIELDS, generator_at, makes_items, put_in
from trainperf.model import Equivalence, Evidence, Finding, Site, is_taken
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.effects import changes_shared, filled_names
from trainperf.source.iterations import (
    carried,
    declared,
    loaded,
    may_be_sequence,
    of_own_loop,
    of_this_function,
    read_outside,
    stored,
)
from trainperf.source.module import Module
from trainperf.source.scopes import Function
from trainperf.source.statements import assigned, called, names_in

CALLS = ("from_generator", "generator")
"""The user's own `from_generator`, and what Keras makes of a generator given to `fit`."""

WAITING_CALLS = 16
"""Items made at once where the input waits for storage: threads cost nothing then."""

COPIES = 4
"""Copies of arrays for which there has to be memory: two are made of them, beside the rest."""

FEWEST_CALLS = 2
"""On one core, too, one item can be read while another is decoded."""


class TfGenerator(Fix):
    """Make the items of a Python generator in several threads, or let TensorFlow read them.

    Why slow: A generator makes one element after the other, on one core, and shares Python with
    the training loop. `num_parallel_calls` cannot help: its next item needs the one before.
    Changes: The body of the generator's loop becomes a function of one item, which threads run
    ahead for the next ones, in order; reading files, Pillow, OpenCV and NumPy let other threads
    run. One that only yields rows of arrays becomes `from_tensor_slices`. Threads draw random
    numbers in another order.
    When not: When an item depends on the one before: such a loop is left alone where that can be
    seen. When what the loop calls is not made for threads: one database cursor, one open file.
    """

    equivalence = Equivalence.NUMERICS
    usual = 1.3
    by_hand = (
        "By hand: make the samples once and keep them, if they may repeat; compute many of them at "
        "once in NumPy; or make them in several processes, in a `PyDataset` with `workers` and "
        "`use_multiprocessing=True`."
    )

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a generator that takes a real share of the input, or was not timed."""
        to_fit = evidence.loop.input_kind == "generator"
        stage = next(
            (
                stage
                for stage in evidence.stages
                if stage.op in CALLS and (stage.by_user or stage.op == "generator" or to_fit)
            ),
            None,
        )
        if stage is None:
            return None
        dear = is_dear(evidence, stage)
        if is_taken(stage.seconds_per_step_) and not dear:
            return None
        where = stage.where or evidence.loop.where
        width = max(FEWEST_CALLS, cores(evidence))
        data: dict[str, Any] = {"calls": max(width, WAITING_CALLS) if waits(evidence) else width}
        if stage.function is not None and stage.function.line:
            data["generator"] = [stage.function.file, stage.function.line]
        steps, size = evidence.loop.epoch_steps, stage.element_bytes
        if steps and size and stage.elements_per_step:
            held = COPIES * steps * stage.elements_per_step * size
            data["fits"] = held < evidence.machine.memory_available
        name = opening(stage) if stage.by_user else "The generator"
        return Cause(
            title="A Python generator feeds the model",
            text=f"{name} makes samples in Python, one after the other{takes(evidence, [stage])}."
            f"{worker_said(evidence)}",
            saves=Saving("the generator costs nothing", lambda: stage.seconds_per_step, of="input"),
            where=(where,) if where else (),
            advice="Make its items in several threads; or give tf.data the list of items and do "
            "the work on each in `map`, or use a `PyDataset` with workers.",
            snippet=f"{LOAD}dataset = tf.data.Dataset.from_tensor_slices((paths, labels))\n"
            "dataset = dataset.shuffle(len(paths)).map(load, num_parallel_calls=tf.data.AUTOTUNE)",
            sure=dear,
            data=data,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Turn the body of the generator's loop into a function that threads call.

        One that only hands out rows of arrays becomes a dataset of the arrays, where "fits" of the
        data does not say that these are too large for a copy. Raises `CannotRewrite` where an item
        may need what another has left.
        """
        site, data = finding.where[0], finding.data
        head, call = generator_at(script, site, data.get("generator")), script.call(site)
        arrays = _rows(script.definition(head)) if data.get("fits", True) else None
        if arrays is None or head.file != site.file or called(call) != CALLS[0]:
            make_apart(script, head, data["calls"])
            return
        module = script.linked(site.file)
        _check_arrays(module, call, arrays)
        types = argument(call, "output_signature") or argument(call, "output_types", 1)
        made = _converted(module, arrays, types, script.module_name(site.file, "numpy", site))
        assert isinstance(call.func, ast.Attribute)
        script.replace_call(site, f"{ast.unparse(call.func.value)}.from_tensor_slices({made})")


# ---------------------------------------------------- items that are made apart, by threads

IN_PARALLEL = '''\
def in_parallel(function, items, calls):
    """Yield what `function` yields for each item, in order; threads work ahead on the next."""
    pool, ahead = futures.ThreadPoolExecutor(calls), collections.deque()
    try:
        for item in items:
            ahead.append(pool.submit(lambda item: list(function(item)), item))
            if len(ahead) > 2 * calls:
                yield from ahead.popleft().result()
        while ahead:
            yield from ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
'''

AHEAD_OF = '''\
def ahead_of(items, count=4):
    """Yield the items in order; a thread makes the next ones meanwhile."""
    items, end = iter(items), object()
    pool = futures.ThreadPoolExecutor(1)
    ahead = collections.deque(pool.submit(next, items, end) for _ in range(count))
    try:
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
'''


def make_apart(script: Script, head: Site, calls: int) -> None:
    """Let threads make the items of the generator whose `def` is at `head`, `calls` at once.

    Raises `CannotRewrite` where an item may need what another has left.
    """
    function, module = script.definition(head), script.linked(head.file)
    loop = _loop(function)
    if why := _why_not(module, function, loop):
        raise CannotRewrite(why)
    make = script.free_name(head.file, "make", "make_item")
    item = script.free_name(head.file, "item", "each_item")
    made = f"{put_in(script, head.file, IN_PARALLEL)}({make}, {{}}, calls={calls})"
    script.loop_into_function(Site(head.file, loop.lineno), make, item, f"yield from {made}")


def _loop(function: Function) -> ast.For:
    """The innermost loop around all that is yielded, which makes what it yields."""
    loops = [
        node
        for node in of_this_function(function.body)
        if isinstance(node, ast.For | ast.While)
        and any(isinstance(part, YIELDS) for part in of_this_function(node.body))
    ]
    inner = [loop for loop in loops if not any(n in loops for n in ast.walk(loop) if n is not loop)]
    if len(inner) != 1:
        raise CannotRewrite("the generator yields in more than one loop, or in none")
    loop = inner[0]
    if isinstance(loop, ast.While):
        raise CannotRewrite("the generator yields in a `while` loop: what it counts is not seen")
    if not any(isinstance(node, ast.Call) for node in of_this_function(loop.body)):
        raise CannotRewrite("the loop that yields makes nothing: it hands out what is there")
    return loop


def _why_not(module: Module, function: Function, loop: ast.For) -> str:
    """Why a loop's iterations cannot be functions of their own; '' if they can."""
    body, own = loop.body, stored(loop.body) | stored([loop.target])
    returns = any(isinstance(node, ast.Return | ast.Await) for node in of_this_function(body))
    if returns or loop.orelse or of_own_loop(body, ast.Break):
        return "the generator's loop may be left before its end"
    if name := carried(body, stored([loop.target])):
        return f"an item needs what the one before left in {name}"
    if changed := changes_shared(module, body):
        return f"the items are not made apart: {changed}"
    if own & declared(function) or not plain_target(loop):
        return "the generator's loop counts in something that others see"
    end = loop.end_lineno or loop.lineno
    behind = [node for node in ast.walk(function) if getattr(node, "lineno", 0) > end]
    left = sorted(own & (loaded(behind) | names_in(loop.iter)))
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.For | ast.While) and node is not loop and loop in ast.walk(node)
    ]
    if around and not left and (name := carried(around[0].body, (), own, without=loop)):
        left = [name]
    return f"what its loop leaves in {left[0]} is read outside it" if left else ""


def plain_target(loop: ast.For) -> bool:
    """Whether a loop counts in names, and in nothing that an object holds."""
    return all(isinstance(target, ast.Name) for target in assigned(loop))


def made_for_rest(
    loop: ast.For, making: Sequence[ast.stmt], hoisted: Sequence[ast.expr], scope: ast.AST
) -> tuple[list[str], str]:
    """The names that the rest of a loop's scope needs of what is `making` its items, in order.

    With the one of which an item needs what the one before left, '' if none. `hoisted` are
    expressions of the rest that are worked out with the item.
    """
    own = stored(making) | stored([loop.target])
    read = read_outside([scope], [*making, *hoisted, loop.iter])
    order = dict.fromkeys(node.id for node in ast.walk(loop) if isinstance(node, ast.Name))
    names = [name for name in order if name in own & read]
    given = [*(ast.Expr(ast.Name(name, ast.Load())) for name in names), *map(ast.Expr, hoisted)]
    return names, carried([*making, *given], stored([loop.target]))


# ------------------------------------------------------ generators of the rows of arrays


def _rows(function: Function) -> ast.expr | None:
    """The arrays whose rows a generator yields, in its structure; None if it does more.

    It is one loop, `for i in range(len(x)): yield x[i], y[i]`, or one over `zip(x, y)`.
    """
    given = function.args
    if given.args or given.vararg or given.kwarg:
        return None
    match without_docstring(function):
        case [ast.For(body=[ast.Expr(ast.Yield(ast.expr() as row))], orelse=[]) as loop]:
            target, over = loop.target, loop.iter
        case _:
            return None
    match target, over:
        case ast.Name(id=name), ast.Name():
            return _arrays(row, "", {name: over})
        case (
            ast.Name(id=name),
            ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"))]),
        ):
            return _arrays(row, name, {})
        case ast.Tuple(elts=parts), ast.Call(func=ast.Name(id="zip"), args=arrays):
            names = [part.id for part in parts if isinstance(part, ast.Name)]
            if len(names) == len(arrays) and all(isinstance(array, ast.Name) for array in arrays):
                return _arrays(row, "", dict(zip(names, arrays, strict=True)))
    return None


def _arrays(node: ast.expr, counted: str, held: dict[str, ast.expr]) -> ast.expr | None:
    """What is yielded, with an array in place of each of its rows."""
    match node:
        case ast.Tuple(elts=elts):
            parts = [part for row in elts if (part := _arrays(row, counted, held)) is not None]
            return ast.Tuple(parts, ast.Load()) if len(parts) == len(elts) else None
        case ast.Name(id=name):
            return held.get(name)
        case ast.Subscript(value=ast.Name() as array, slice=ast.Name(id=by)) if by == counted:
            return array
    return None


def _check_arrays(module: Module, call: ast.Call, arrays: ast.expr) -> None:
    """Refuse what is no array, changes later, or is another one where the dataset is made."""
    changed = filled_names(module, [module.top.node])
    for name in (node for node in ast.walk(arrays) if isinstance(node, ast.Name)):
        held = may_be_sequence(module.value(name)) and not makes_items(module, name)
        if name.id in changed or not held:
            raise CannotRewrite(f"{name.id} is no array, or changes as the script runs")
        there = module.bindings(name)
        later = any(getattr(binding.node, "lineno", 0) > call.lineno for binding in there or ())
        if not there or there is not module.scope(call).find(name.id) or later:
            raise CannotRewrite(f"{name.id} is another one where the dataset is made")


def _converted(module: Module, arrays: ast.expr, types: ast.expr | None, numpy: str) -> str:
    """The source of the arrays with the dtypes that the call names."""
    types = None if types is None else module.value(types)
    if isinstance(arrays, ast.Tuple):
        if not isinstance(types, ast.Tuple | ast.List) or len(types.elts) != len(arrays.elts):
            raise CannotRewrite("the types of what is yielded are not written out")
        pairs = zip(arrays.elts, types.elts, strict=True)
        parts = [_converted(module, array, each, numpy) for array, each in pairs]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(types, ast.Call):  # a TensorSpec
        types = argument(types, "dtype", 1) or ast.Constant("float32")
    if not isinstance(types, ast.Attribute | ast.Constant):
        raise CannotRewrite("the types of what is yielded are not written out")
    name = ast.unparse(types).rpartition(".")[2].strip("'\"")
    return f"{numpy}.asarray({ast.unparse(arrays)}, {numpy}.{name})"
