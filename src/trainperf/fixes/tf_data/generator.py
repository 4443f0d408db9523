"""A Python generator that feeds the pipeline."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import (
    cores,
    function_name,
    is_dear,
    opening,
    takes,
    waits,
    worker_said,
)
from trainperf.fixes.tf_data._mapped import put_in
from trainperf.model import Equivalence, Evidence, Finding, Site, is_taken
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.effects import changes_shared
from trainperf.source.iterations import (
    carried,
    declared,
    loaded,
    of_own_loop,
    of_this_function,
    read_outside,
    stored,
)
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import assigned, called, names_in

CALLS = ("from_generator", "generator")
"""The user's own `from_generator`, and what Keras makes of a generator given to `fit`."""

WAITING_CALLS = 16
"""Items made at once where the input waits for storage: threads cost nothing then."""

FEWEST_CALLS = 2
"""On one core, too, one item can be read while another is decoded."""


class TfGenerator(Fix):
    """Make the items of a Python generator in several threads, or let TensorFlow read them.

    ## Why it is slow
    A generator makes one element after the other, on one core, and shares Python with the
    training loop. `num_parallel_calls` cannot help: its next item needs the one before.

    ## What changes
    The body of the generator's loop becomes a function of one item, which threads run ahead for
    the next ones, in order; reading files, Pillow, OpenCV and NumPy let other threads run.
    Threads draw random numbers in another order.

    ## When not to
    When an item depends on the one before: such a loop is left alone where that can be seen.
    When what the loop calls is not made for threads: one database cursor, one open file.
    When it only yields rows of arrays: `tf.data.Dataset.from_tensor_slices` is for these.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS
    usual = 1.3

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
        name = opening(stage) if stage.by_user else "The generator"
        return Cause(
            title="A Python generator feeds the model",
            text=f"{name} makes samples in Python, one after the other{takes(evidence, [stage])}."
            f"{worker_said(evidence)}",
            saves=Saving("the generator costs nothing", lambda: stage.seconds_per_step, of="input"),
            where=(where,) if where else (),
            advice="Make its items in several threads; or give tf.data the list of items and do "
            "the work on each in `map`, or use a `PyDataset` with workers.",
            snippet=SNIPPET.format(name=function_name(stage, "the generator")),
            sure=dear,
            data=data,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Turn the body of the generator's loop into a function that threads call."""
        for site in finding.where:
            head = generator_at(script, site, finding.data.get("generator"))
            make_apart(script, head, finding.data["calls"])


SNIPPET = """\
# In place of {name}: tf.data walks over file names, TensorFlow works on each, on all cores.
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (height, width)), label


dataset = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths))
dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size)
"""


# --------------------------------------------------------------- where it is defined

GIVEN = {"from_generator": "generator", "fit": "x"}
"""Calls that take a generator, and the name of the argument."""

YIELDS = (ast.Yield, ast.YieldFrom)
_DEEP = 4
"""How many names, calls and lambdas lead from the call to the generator."""


def generator_at(script: Script, site: Site, seen: object) -> Site:
    """Return where the generator's `def` stands: as the run saw it, or as the source says."""
    if isinstance(seen, list | tuple) and len(seen) == 2:
        head = Site(str(seen[0]), int(seen[1]))
        try:
            if yields(script.definition(head)):
                return head
        except CannotRewrite:
            pass  # a lambda around it
    module, call = script.linked(site.file), script.call(site)
    given = argument(call, GIVEN[called(call)], 0) if called(call) in GIVEN else None
    found = None if given is None else _definition(module, given, _DEEP)
    if found is None or not yields(found[1]):
        raise CannotRewrite("where the generator is defined is not seen")
    return Site(site.file if found[0] is module else str(found[0].path), found[1].lineno)


def _definition(module: Module, node: ast.expr, deep: int) -> tuple[Module, Function] | None:
    """Follow names, calls and lambdas to a function of the user's files."""
    if not deep:
        return None
    node = module.value(node)
    if isinstance(node, ast.Lambda):
        return _definition(module, node.body, deep - 1)
    if isinstance(node, ast.Call):
        return _definition(module, node.func, deep - 1)
    found = module.defined(node)
    if found is None:
        return None
    owner, target = found
    if isinstance(target, ast.ClassDef):
        methods = (method for method in target.body if isinstance(method, FUNCTIONS))
        called = next((method for method in methods if method.name == "__call__"), None)
        return None if called is None else (owner, called)
    if yields(target):
        return owner, target
    returned = [part.value for part in ast.walk(target) if isinstance(part, ast.Return)]
    inner = returned[0] if len(returned) == 1 else None
    return None if inner is None else _definition(owner, inner, deep - 1)


def yields(function: Function) -> bool:
    """Whether a function is a generator."""
    return any(isinstance(node, YIELDS) for node in of_this_function(function.body))


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
