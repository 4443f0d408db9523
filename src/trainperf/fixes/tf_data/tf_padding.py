"""Batches that are padded to more than their own longest sequence."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import percent, worth
from trainperf.fixes.tf_data.edits.buckets import fit_of_arrays, open_inputs
from trainperf.model import Equivalence, Evidence, Finding, Padding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, starred
from trainperf.source.origins.parameters import callers
from trainperf.source.origins.project import Project
from trainperf.source.origins.values import File
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import called, root

ENOUGH = 64
"""Sequences that have to be seen before the longest of a batch says anything of the others."""

MOSTLY_DATA = 0.75
"""Batches whose longest sequence takes so much of them are padded well enough."""

MULTIPLE = 16
"""Lengths are rounded up to multiples of this: a step more costs little, a new shape may cost."""

LENGTHS_OF_XLA = 4
"""So many lengths where XLA compiles the step for each: with every length that came an LSTM of
250 steps took 75 s in place of 12 s, plain runs of 200 steps."""

COMPILES = ("keras_jit_compile", "tf_jit_compile")

SAME_BATCHES = ("prefetch", "repeat", "take", "skip", "shuffle", "cache", "with_options")
"""Calls of a pipeline that hand on the batches they are given."""

SNIPPET = """\
dataset = tf.data.Dataset.from_tensor_slices((ragged, labels)).shuffle(count).batch(batch_size)
dataset = dataset.map(lambda rows, labels: (rows.to_tensor(), labels)).prefetch(tf.data.AUTOTUNE)"""


class TFPadding(Fix):
    """Cut each batch behind its own longest sequence.

    ## Why it is slow
    Sequences are padded to one length for all, and the model computes the padding as well: a
    recurrent layer walks through every step of it, masked or not.

    ## What changes
    A `map` behind `batch` cuts each batch to its longest row, rounded up to a multiple of a few
    steps, in the same order, wherever it was padded. Arrays given to `fit` become such a dataset;
    `padded_batch` is no longer given the length. Only zeros go that all rows of a batch have at
    that end, and only where this run has shown that the model gives the same without them (it
    masks them) and the script has no other model: rounding is all that differs.

    ## When not to
    When the model needs one length (a flattened time axis), or the script puts batches of
    sequences together in one array.
    Where XLA compiles the step: each length is compiled once, so they are kept few.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find batches padded far beyond their own longest, whose padding the model masks."""
        padding = _mostly_padded(evidence)
        if padding is None:
            return None
        saved = evidence.times.resident * (1 - _cut_to(evidence, padding) / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        return self._finding(evidence, padding, bound) if worth(evidence, bound) else None

    def untimed(self, evidence: Evidence) -> Finding | None:
        """Try it all the same: the lengths were counted."""
        padding = _mostly_padded(evidence)
        return self._finding(evidence, padding, None) if padding is not None else None

    def _finding(self, evidence: Evidence, padding: Padding, bound: float | None) -> Finding:
        where, longest = _places(evidence), padding.longest_length or 0.0
        spare = percent(1 - longest / padding.padded_length)
        return self.finding(
            title="Batches are padded beyond their longest sequence",
            text=(
                f"Sequences are padded to {padding.padded_length:.0f} steps, and the longest of a "
                f"batch has {longest:.0f} on average: {spare} of what the model computes is "
                "padding that no sequence of the batch needs. "
                "Without it the model gave the same in this run."
            ),
            bound=bound,
            bound_basis="the step's time follows the padded length",
            where=where,
            advice="Pad to the longest of the batch.",
            snippet=SNIPPET,
            data={
                "side": padding.side,
                "multiple": _multiple(evidence, padding),
                "alone": padding.place is not None and padding.place.along == (0,),
            },
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """XLA, turned on beside it, would compile each of many lengths."""
        if other.id not in COMPILES:
            return ""
        return "XLA would compile the step for each length of a batch"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Cut the batches of a pipeline or of `fit`, or let `padded_batch` find the length."""
        cut_batches(script, finding.where, finding.data)


def place_of_padding(evidence: Evidence) -> Site | None:
    """The call that pads: `padded_batch`, if one was seen, or `fit`, which is given the arrays."""
    stages = evidence.stages_ if isinstance(evidence.stages_, tuple) else ()
    pads = [one.where for one in stages if one.op == "padded_batch" and one.by_user]
    return next((each for each in pads if each), evidence.loop.where)


def _places(evidence: Evidence) -> tuple[Site, ...]:
    """The last call that changes the batches of a pipeline, and `fit`'s; or the one that pads."""
    stages = evidence.stages_ if isinstance(evidence.stages_, tuple) else ()
    changing = (one for one in reversed(stages) if one.by_user and one.op not in SAME_BATCHES)
    last = next(changing, None)
    found = [place_of_padding(evidence)]
    if last is not None and last.op in PIPELINE and last.where is not None:
        found = [last.where, evidence.loop.where]
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _mostly_padded(evidence: Evidence) -> Padding | None:
    """The lengths of batches that the model masks, if enough were seen with far too much."""
    padding = evidence.padding
    if padding is None or not padding.masked or padding.sequences < ENOUGH:
        return None
    spare = 0 < (padding.longest_length or 0) < MOSTLY_DATA * padding.padded_length
    return padding if spare else None


def _multiple(evidence: Evidence, padding: Padding) -> int:
    if not any(model.jit for model in evidence.models):
        return MULTIPLE
    return MULTIPLE * math.ceil(padding.padded_length / LENGTHS_OF_XLA / MULTIPLE)


def _cut_to(evidence: Evidence, padding: Padding) -> float:
    """The length that batches have afterwards, about: rounded up by half a multiple."""
    longest = padding.longest_length or padding.padded_length
    if not any(model.jit for model in evidence.models):
        return longest
    return min(padding.padded_length, longest + _multiple(evidence, padding) / 2)


PIPELINE = ("batch", "map", "padded_batch")
"""Calls of a pipeline that may be the last to change its batches."""

REBATCHED = ("unbatch", "rebatch")
JOINED = ("concatenate", "concat", "vstack")
JOINS = (*REBATCHED, *JOINED)

DEEPEST = 5
"""A call is followed through so many functions that call each other."""

CUT = '''\
def {name}(rows, *others):
    """Return a batch whose rows of numbers are cut to the longest, at a multiple of {multiple}."""
    if isinstance(rows, {tf}.Tensor) and rows.dtype.is_integer and rows.shape.rank == 2:
        steps = {steps}
        longest = {tf}.reduce_max({tf}.where(rows != 0, steps, 1))
        length = -(-longest // {multiple}) * {multiple}
        rows = rows[:, {cut}]
    return (rows, *others) if others else rows
'''
STEPS = {
    "end": "{tf}.range(1, {tf}.shape(rows)[1] + 1)",
    "start": "{tf}.range({tf}.shape(rows)[1], 0, -1)",
}
PARTS = {"end": ":length", "start": "-length:"}

OF_ARRAYS = '''\
def {name}(rows, targets, batch_size, shuffle):
    """Return batches of arrays, each cut to its longest row."""
    rows, targets = {tf}.convert_to_tensor(rows), {tf}.convert_to_tensor(targets)

    def taken(places):
        return {cut}({tf}.gather(rows, places), {tf}.gather(targets, places))

    order = {tf}.data.Dataset.range(len(rows))
    order = order.shuffle(len(rows)) if shuffle else order
    batches = order.batch(batch_size).map(taken, num_parallel_calls={tf}.data.AUTOTUNE)
    return batches.prefetch({tf}.data.AUTOTUNE)
'''


def cut_batches(script: Script, where: Sequence[Site], data: Mapping[str, Any]) -> None:
    """Cut batches to their longest row: those of a call of a pipeline, or of `fit`.

    `where` is that call, and the one of `fit` behind it. `data` has "side", the end of the rows
    that holds their padding, "multiple", of which lengths are, and "alone", whether the rows come
    first in a tuple and nothing else in it goes along with their steps. Raises `CannotRewrite`
    where the arrays, or the lengths, are not written out, or something else may read padding.
    """
    site = where[0]
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    if not isinstance(call, ast.Call) or starred(call):
        raise CannotRewrite("the arguments of the call are not written out")
    name = called(call)
    if name == "fit":
        _fit(script, site, call, data)
    elif name == "padded_batch" and _lengths(script, site):
        _open_shapes(script, site)
    elif name in PIPELINE:
        _behind(script, where, data)
    else:
        raise CannotRewrite("where sequences are padded is not seen")


def _behind(script: Script, where: Sequence[Site], data: Mapping[str, Any]) -> None:
    """Cut the batches that a call of a pipeline gives: `.batch(32)` becomes `.batch(32).map(…)`."""
    if not data.get("alone"):
        raise CannotRewrite("batches hold more than one sequence and its label")
    site, files = where[0], list(dict.fromkeys(each.file for each in reversed(where)))
    project = script.project(files)
    _check_one_model(project)
    _check_not_joined(project)
    for each in {each.file: each for each in where}.values():
        open_inputs(script, each)
    tf = script.module_name(site.file, "tensorflow")
    name, text = _cutter(script, site.file, tf, data)
    script.insert_function(site.file, text)
    script.append_call(site, f".map({name}, num_parallel_calls={tf}.data.AUTOTUNE)")


def _check_one_model(project: Project) -> None:
    """Refuse where another model may be given the batches: this run has not seen if it masks."""
    compiled = [
        (file, call)
        for file in project.holding("compile")
        for call in file.module.methods("compile")
        if file.module.name(call.func) not in ("re.compile", "regex.compile")
    ]
    if len(compiled) != 1 or _runs_again(project, *compiled[0]):
        raise CannotRewrite("several models may be given these batches, or which is not seen")


def _check_not_joined(project: Project) -> None:
    """Refuse where batches are put together again, which takes rows of one length."""
    for file in project.holding(*JOINS):
        if any(file.module.methods(*REBATCHED)):
            raise CannotRewrite("samples are taken out of their batches again")
        for call in file.module.methods(*JOINED):
            rows = call.args[0] if call.args else None
            if isinstance(rows, ast.ListComp) and _is_first(rows.elt, rows.generators[0].target):
                raise CannotRewrite("batches of sequences are put together in one array")


def _is_first(node: ast.expr, target: ast.expr) -> bool:
    """Whether an expression is of the first of the names that a loop has: `x.numpy()` of `x, y`."""
    first = target.elts[0] if isinstance(target, ast.Tuple) else None
    return isinstance(first, ast.Name) and first.id == root(node)


def _runs_again(project: Project, file: File, node: ast.Call, depth: int = 0) -> bool:
    """Whether a call stands in a loop, or in a function that is called in one or from several."""
    function = file.module.function(node)
    if file.module.loops(node) or depth > DEEPEST:
        return True
    if not isinstance(function, FUNCTIONS):
        return function is not None
    calls = callers(project, file, function)
    return len(calls) > 1 or any(_runs_again(project, *each, depth + 1) for each in calls)


def _cutter(script: Script, file: str, tf: str, data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the function that cuts a batch: its name in a file, and its source."""
    name = script.free_name(file, "cut_batch", "batch_cut")
    side, multiple = str(data["side"]), data["multiple"]
    steps, cut = STEPS[side].format(tf=tf), PARTS[side]
    return name, CUT.format(name=name, tf=tf, multiple=multiple, steps=steps, cut=cut)


def _open_shapes(script: Script, site: Site) -> None:
    """Let `padded_batch` pad to the batch's longest: `([200], [])` becomes `([None], [])`."""
    fixed = _lengths(script, site)
    if len(fixed) != 1:
        raise CannotRewrite("padded_batch pads several sequences to a length")
    open_inputs(script, site)
    script.replace_node(site.file, fixed[0], "None")


def _lengths(script: Script, site: Site) -> list[ast.expr]:
    """The lengths that a call of `padded_batch` names."""
    shapes = argument(script.call(site), "padded_shapes", 1)
    return [
        each
        for node in ast.walk(shapes or ast.Constant(None))
        if isinstance(node, ast.List | ast.Tuple)
        for each in node.elts[:1]
        if _is_length(each) and len(node.elts) == 1
    ]


def _is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) or (
        isinstance(node, ast.Constant) and isinstance(node.value, int)
    )


def _fit(script: Script, site: Site, call: ast.Call, data: Mapping[str, Any]) -> None:
    fit = fit_of_arrays(call)
    open_inputs(script, site)
    tf = script.module_name(site.file, "tensorflow")
    cut, cutter = _cutter(script, site.file, tf, data)
    name = script.free_name(site.file, "cut_batches", "batches_cut")
    of_arrays = OF_ARRAYS.format(name=name, tf=tf, cut=cut)
    script.insert_function(site.file, f"{cutter}\n\n{of_arrays}")
    rest = {str(each.arg): each.value for each in fit.rest}
    size = fit.batch_size
    validated = rest.get("validation_data")
    if isinstance(validated, ast.Tuple) and len(validated.elts) == 2:
        given = rest.pop("validation_batch_size", None)
        of = size if given is None else ast.unparse(given)
        arrays = ", ".join(ast.unparse(each) for each in validated.elts)
        rest["validation_data"] = ast.parse(f"{name}({arrays}, {of}, False)", mode="eval").body
    parts = [f"{name}({fit.rows}, {fit.targets}, {size}, True)"]
    parts += [f"{key}={ast.unparse(value)}" for key, value in rest.items()]
    script.replace_call(site, f"{fit.function}({', '.join(parts)})")
