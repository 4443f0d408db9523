"""A cheap function called once for every sample."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    costly,
    function_name,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    to_try,
    upper,
)
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.tf_data.edits.mapped import mapped
from trainperf.model import Equivalence, Evidence, Finding, Site, Stage, is_taken
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import names_in, parameters, root

CHEAP = 50e-6
"""Seconds per call below which the call itself (about 10 µs) is a real part of the cost."""

FEWEST = 16
"""Calls per step below which there is little to put together."""

PER_ELEMENT = ("ReadFile", "Decode", "WholeFileReader", "SampleDistortedBoundingBox")
"""Ops, by the start of their names, that take one file or image and no batch of them."""

BATCHING = ("batch", "padded_batch", "ragged_batch")

PASSED = ("prefetch", "shuffle", "repeat")
"""Stages that hand on each sample as it is: what is done to it can wait until behind them."""

_OF_ONE = {
    "cast", "identity", "abs", "square", "sqrt", "exp", "sign", "negative", "clip_by_value",
    "convert_image_dtype", "one_hot", "expand_dims", "float32", "zeros_like", "ones_like", "tanh",
    "sigmoid", "log", "log1p", "saturate_cast", "stop_gradient", "preprocess_input", "relu",
    "subtract", "add", "multiply", "divide", "maximum", "minimum", "pow",
}  # fmt: skip
"""Functions of TensorFlow and Keras that treat each number by itself, their other arguments
being numbers; `one_hot` and `expand_dims` where they add the last axis."""

_MODULES = ("tensorflow.", "keras.")
_DEPTH = 3


class VectorisedMap(Fix):
    """Batch first and map whole batches, when the function is cheap.

    ## Why it is slow
    Each call of a mapped function costs about 10 µs besides its work.
    Scaling one row of numbers takes less than that; called for each sample of a batch,
    the calls cost more than the arithmetic.

    ## What changes
    `.map(f).batch(n)` becomes `.batch(n).map(f)`: one call per batch.
    The function sees one more axis in front. Where it treats each number by itself (casts,
    scales, one-hot codes) it is moved as it is; any other has to be written for it.

    ## When not to
    When the function decodes files or images, which have different sizes.
    When it draws one random number per sample: it would draw one per batch.
    When it reduces over an axis counted from the front.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find cheap per-sample maps directly ahead of a batch."""
        chain = evidence.stages
        found = costly(
            evidence, lambda stage: _cheap(stage) and _batch_behind(chain, stage) is not None
        )
        if not found:
            return None
        dearest = found[0]
        bound = evidence.bound_if_input_saves(dearest.seconds_per_step)
        calls = dearest.elements_per_step
        if calls is None or not worth(evidence, bound):
            return None
        text = (
            f"{opening(dearest)} is called {calls:.0f} times a step for "
            f"{ms(dearest.seconds_per_step / calls)} each: {ms(dearest.seconds_per_step)} of "
            f"the {ms(pipeline_seconds(evidence))} the pipeline needs. Much of that is the "
            f"call, not the work."
        )
        return self._finding(evidence, dearest, text, bound)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a map behind its batch that was not timed, if it is called often."""
        chain = evidence.stages
        found = to_try(
            evidence, lambda stage: _movable(stage) and _batch_behind(chain, stage) is not None
        )
        found = tuple(one for one in found if not is_taken(one.seconds_per_step_) or _cheap(one))
        if not found:
            return None
        text = f"{opening(found[0])} is called for every sample of a batch."
        finding = self._finding(evidence, found[0], text, known(input_at_most(evidence)))
        return finding if finding.rewritable else None

    def _finding(
        self, evidence: Evidence, mapped: Stage, text: str, bound: float | None
    ) -> Finding:
        name = function_name(mapped, "function")
        batch = _batch_behind(evidence.stages, mapped)
        where = tuple(one.where for one in (mapped, batch) if one is not None and one.where)
        return self.finding(
            title="A cheap function is called for every sample",
            text=text,
            bound=bound,
            bound_basis=upper(evidence, "the calls cost nothing"),
            where=where,
            # what pads a batch would have its padding scaled as well
            rewritable=batch is not None
            and batch.op == "batch"
            and len(where) == 2
            and all(site.exact for site in where),
            advice="Batch first, and let the function work on whole batches.",
            snippet=(
                f"# {name} now gets batches: one more axis in front\n"
                "dataset = dataset.batch(batch_size)\n"
                f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)"
            ),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move the map behind the batch, where its function may as well have batches."""
        first, batch = sorted(finding.where, key=lambda site: (site.end_line, site.end_col))
        _check(script, first)
        move_behind(script, first, batch)


def _cheap(stage: Stage) -> bool:
    calls = stage.elements_per_step
    if calls is None or not _movable(stage):
        return False
    return stage.seconds_per_step / calls < CHEAP


def _movable(stage: Stage) -> bool:
    """Whether a map is called often, and may do the same to a batch."""
    calls = stage.elements_per_step
    if stage.op != "map" or (calls is not None and calls < FEWEST):
        return False
    whole = not any(op.startswith(PER_ELEMENT) for op in stage.ops)
    return whole and bool(stage.ops) and not stage.stateful_random and not stage.python


def _batch_behind(chain: tuple[Stage, ...], stage: Stage) -> Stage | None:
    """The batch behind a stage, with nothing between them that sees what is in a sample."""
    behind = (each for each in chain[chain.index(stage) + 1 :] if each.op not in PASSED)
    following = next(behind, None)
    return following if following is not None and following.op in BATCHING else None


def _check(script: Script, site: Site) -> None:
    """Refuse a function that may not do the same to a batch as to each of its samples."""
    module, function = mapped(script, site)
    if function is None or not elementwise(module, function):
        raise CannotRewrite("the function may not do the same to a batch as to each sample")


def elementwise(module: Module, function: Function | ast.Lambda, depth: int = _DEPTH) -> bool:
    """Whether a function only treats each number by itself, whatever axes stand in front.

    What it combines its arguments with must be numbers, or lists of them for the last axis.
    """
    given = set(parameters(function)) if isinstance(function, FUNCTIONS) else set()
    given |= {each.arg for each in function.args.args}
    if function.args.vararg or function.args.kwarg or function.args.kwonlyargs or not depth:
        return False
    if isinstance(function, ast.Lambda):
        return _keeps(module, function.body, given, depth)
    for statement in function.body:
        said = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Return) and statement.value is not None:
            return _keeps(module, statement.value, given, depth)
        if said:
            continue
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Name) or not _keeps(module, value, given, depth):
            return False
        given |= {target.id} if names_in(value) & given else set()
    return False


def _keeps(module: Module, node: ast.expr, given: set[str], depth: int) -> bool:
    if not names_in(node) & given:
        return isinstance(node, ast.Dict) or _is_number(module, node)
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Tuple):
        return all(_keeps(module, each, given, depth) for each in node.elts)
    if isinstance(node, ast.Dict):
        keys = all(isinstance(each, ast.Constant) for each in node.keys)
        return keys and all(_keeps(module, each, given, depth) for each in node.values)
    if isinstance(node, ast.UnaryOp):
        return _keeps(module, node.operand, given, depth)
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
        both = bool(names_in(node.left) & given) and bool(names_in(node.right) & given)
        sides = (node.left, node.right)
        return not both and all(_keeps(module, each, given, depth) for each in sides)
    if isinstance(node, ast.Subscript):
        return _keeps(module, node.value, given, depth) and _keeps_axes(module, node.slice)
    if isinstance(node, ast.Call):
        return _call_keeps(module, node, given, depth)
    return False


def _keeps_axes(module: Module, index: ast.expr) -> bool:
    """Whether an index picks from a dictionary, or adds a last axis: `["image"]`, `[..., None]`."""
    if isinstance(index, ast.Constant):
        return isinstance(index.value, str)
    if not isinstance(index, ast.Tuple) or len(index.elts) != 2:
        return False
    first, second = index.elts
    dots = isinstance(first, ast.Constant) and first.value is Ellipsis
    none = isinstance(second, ast.Constant) and second.value is None
    return dots and (none or module.name(second) == "tensorflow.newaxis")


def _call_keeps(module: Module, node: ast.Call, given: set[str], depth: int) -> bool:
    values = [*node.args, *(each.value for each in node.keywords)]
    data = [each for each in values if names_in(each) & given]
    local = function_of(module, node.func)
    if isinstance(local, FUNCTIONS):
        kept = all(_keeps(module, each, given, depth) for each in data)
        return kept and len(data) == len(values) and elementwise(module, local, depth - 1)
    name = module.name(node.func) or ""
    short = name.rpartition(".")[2]
    if not name.startswith(_MODULES) or short not in _OF_ONE or len(data) != 1:
        return False
    if not node.args or data[0] is not node.args[0]:
        return False
    if short == "expand_dims":
        return bool(module.constant(argument(node, "axis", 1)) == -1)
    if short == "one_hot" and argument(node, "axis") is not None:
        return False
    return _keeps(module, data[0], given, depth)


def _is_number(module: Module, node: ast.expr) -> bool:
    node = module.value(node)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | bool)
    if isinstance(node, ast.List | ast.Tuple):
        return all(_is_number(module, each) for each in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _is_number(module, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(module, node.left) and _is_number(module, node.right)
    if isinstance(node, ast.Call):
        made = module.name(node.func) in ("tensorflow.constant", "numpy.array", "float", "int")
        return made and bool(node.args) and _is_number(module, node.args[0])
    return False


def change_places(script: Script, one: Site, other: Site) -> None:
    """Swap two calls: `x.a().b()`, in one statement, or `x = x.a()`, `x = x.b()`.

    The order of the two sites does not matter. Raises `CannotRewrite` where the calls
    are written in any other way.
    """
    if one.file == other.file and script.around(one)[-1] is script.around(other)[-1]:
        _check_chain(script, (max(one, other, key=_end), min(one, other, key=_end)))
        script.swap_last_two_calls(max(one, other, key=_end))
    else:
        script.swap_statements(one, other)


def move_ahead(script: Script, calls: Sequence[Site]) -> None:
    """Move the last of some calls ahead of all others, in whatever order their sites are.

    All are in one chain, or in neighbouring statements `x = x.a()` of their own. Raises
    `CannotRewrite` where they are written in any other way.
    """
    calls = sorted(calls, key=_end, reverse=True)
    moved, *passed = calls
    if len(passed) == 1:
        change_places(script, moved, passed[0])
        return
    statements = [script.around(site)[-1] for site in calls]
    if all(each is statements[0] for each in statements):
        _check_chain(script, calls)
        script.move_call(moved, passed[-1])
        return
    _check_neighbours(script, moved, statements)
    script.insert_before(passed[-1], ast.unparse(statements[0]))
    script.remove_statement(moved)


def move_behind(script: Script, moved: Site, last: Site) -> None:
    """Move a call behind a later one of its pipeline: in one chain, or in `x = x.a()`, `x = …`.

    Raises `CannotRewrite` where the pipeline is written in any other way.
    """
    first, end = script.around(moved)[-1], script.around(last)[-1]
    if first is not end:
        block = _block(script, moved, first)
        if end not in block:
            raise CannotRewrite("the calls do not stand in one block")
        between = block[block.index(first) : block.index(end) + 1]
        _check_one_name(between)
    script.move_call_behind(moved, last)


def _check_chain(script: Script, calls: Sequence[Site]) -> None:
    """Refuse calls that do not directly follow each other, the last first."""
    for outer, inner in pairwise(calls):
        if _end(script.receiver(outer)) != _end(inner):
            raise CannotRewrite("another call stands between the two")


def _check_neighbours(script: Script, moved: Site, statements: Sequence[ast.stmt]) -> None:
    """Refuse all but neighbouring statements `x = x.a()` of one name, the last first."""
    block = _block(script, moved, statements[0])
    last = block.index(statements[0])
    for place, each in enumerate(statements):
        if last < place or block[last - place] is not each:
            raise CannotRewrite("the statements do not follow each other")
    _check_one_name(statements)


def _block(script: Script, site: Site, statement: ast.stmt) -> list[ast.stmt]:
    """The block that holds the statement around a site."""
    around = script.around(site)
    parent = around[-2] if len(around) > 1 else script.module(site.file)
    blocks = [value for _, value in ast.iter_fields(parent) if isinstance(value, list)]
    holding = [block for block in blocks if any(each is statement for each in block)]
    if not holding:
        raise CannotRewrite("the statements do not stand in a plain block")
    return holding[0]


def _check_one_name(statements: Sequence[ast.stmt]) -> None:
    """Refuse all but statements `x = x.a()` of one name."""
    assigned = [each for each in statements if isinstance(each, ast.Assign)]
    names = {ast.unparse(target) for each in assigned for target in each.targets}
    if len(assigned) < len(statements) or any({root(each.value)} != names for each in assigned):
        raise CannotRewrite("the statements do not reassign the same name")


def _end(site: Site) -> tuple[int, int]:
    return site.end_line, site.end_col
