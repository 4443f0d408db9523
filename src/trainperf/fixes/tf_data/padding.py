"""Batches of sequences that are mostly padding."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import resident_seconds
from trainperf.fixes.common.words import if_measured, ms, percent
from trainperf.fixes.tf_data._source import put_in
from trainperf.model import Equivalence, Evidence, Finding, Padding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, keyword, starred
from trainperf.source.statements import called

ENOUGH = 64
"""Sequences that have to be seen before their lengths say anything of the others."""

MOSTLY_DATA = 0.75
"""Batches whose longest sequence takes so much of them are padded well enough."""

MEAN_MOSTLY_DATA = 0.6
"""Mean over padded length from which padding is a cost of doing business: bucketing
gives little there, and costs variety among the batches."""

MULTIPLE = 16
"""Lengths are rounded up to multiples of this: a step more costs little, a new shape may cost."""

LENGTHS_OF_XLA = 4
"""So many lengths where XLA compiles the step for each: with every length that came an LSTM of
250 steps took 75 s in place of 12 s, plain runs of 200 steps."""

COMPILES = ("keras_jit_compile", "tf_jit_compile")

PIPELINE = ("batch", "map", "padded_batch")
"""Calls of a pipeline that may be the last to change its batches."""

SAME_BATCHES = ("prefetch", "repeat", "take", "skip", "shuffle", "cache", "with_options")
"""Calls of a pipeline that hand on the batches they are given."""

FOLLOWS = "the step's time follows the padded length"

SNIPPET = """\
dataset = tf.data.Dataset.from_tensor_slices((ragged, labels)).shuffle(count).batch(batch_size)
dataset = dataset.map(lambda rows, labels: (rows.to_tensor(), labels)).prefetch(tf.data.AUTOTUNE)"""


class TfPadding(Fix):
    """Cut each batch behind its own longest sequence.

    Why slow: Sequences are padded to one length for all, and the model computes the padding as
    well: a recurrent layer walks through every step of it, masked or not.
    Changes: A `map` behind `batch` cuts each batch to its longest row, rounded up a little. Arrays
    given to `fit` become such a dataset. Only zeros go that all rows of a batch have at that end,
    and only where this run has shown that the model gives the same without them and the script has
    no other model.
    When not: When the model needs one length, or the script puts batches together in one array.
    Where XLA compiles the step: each length is compiled once, so they are kept few.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find batches padded far beyond their own longest, whose padding the model masks."""
        padding = evidence.padding
        if padding is None or not padding.masked or padding.sequences < ENOUGH:
            return None
        longest, whole = padding.longest_length or 0, padding.padded_length
        if not 0 < longest < MOSTLY_DATA * whole:
            return None
        multiple, cut_to = MULTIPLE, longest
        if any(model.jit for model in evidence.models):
            multiple *= math.ceil(whole / LENGTHS_OF_XLA / MULTIPLE)
            cut_to = min(whole, longest + multiple / 2)  # about: it is rounded up
        return Cause(
            title="Batches are padded beyond their longest sequence",
            text=f"Sequences are padded to {whole:.0f} steps, and the longest of a batch has "
            f"{longest:.0f} on average: {percent(1 - longest / whole)} of what the model computes "
            "is padding that no sequence of the batch needs. "
            "Without it the model gave the same in this run.",
            saves=Saving(FOLLOWS, lambda: resident_seconds(evidence) * (1 - cut_to / whole)),
            where=_places(evidence),
            snippet=SNIPPET,
            data={
                "side": padding.side,
                "multiple": multiple,
                "alone": padding.place is not None and padding.place.along == (0,),
            },
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """XLA, turned on beside it, would compile each of many lengths."""
        if other.id not in COMPILES:
            return ""
        return "XLA would compile the step for each length of a batch"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Cut the batches of a pipeline or of `fit`."""
        site = finding.where[0]
        name = called(script.call(site))
        if name == "fit":
            functions = (_cutter(finding.data), OF_ARRAYS)
            _give_dataset(script, site, functions, True, validating=False)
        elif name in PIPELINE:
            _cut_behind(script, finding.where, finding.data)
        else:
            raise CannotRewrite("where sequences are padded is not seen")


class TfPaddingBuckets(Fix):
    """Batch sequences of about the same length together.

    Why slow: Every sequence of a batch is padded to the same length, and the model computes the
    padding.
    Changes: `bucket_by_sequence_length` makes batches of similar length, each padded to its own
    bucket. Batches hold other samples than before, and each length is traced. Arrays padded up
    front lose the zeros at the end of their rows. The boundaries are quartiles of the lengths
    seen.
    When not: When the length tells the label, or the model has a fixed input length (`unroll`).
    Where XLA compiles the step, each shape is compiled once: keep the buckets few.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find batches that are mostly padding, where batching by length would shorten them."""
        padding = evidence.padding
        if padding is None or padding.sequences < ENOUGH or padding.padded_length <= 0:
            return None
        mean, whole, bucketed = padding.mean_length, padding.padded_length, padding.bucketed_length
        if mean >= MEAN_MOSTLY_DATA * whole:
            return None
        boundaries = _boundaries(padding)
        computed = if_measured(lambda: f" in {ms(evidence.times.resident)}")
        return Cause(
            title="Most of each sequence is padding",
            text=f"Sequences are {mean:.0f} steps long on average and padded to {whole:.0f}: "
            f"{percent(1 - mean / whole)} of what the model computes{computed} is padding. "
            f"Batched by length they would be padded to {bucketed:.0f}.",
            saves=Saving(FOLLOWS, lambda: resident_seconds(evidence) * (1 - bucketed / whole)),
            where=_places(evidence, change=False),
            advice="Use `bucket_by_sequence_length`, not `padded_batch` or padding up front.",
            snippet="# dataset: one unpadded sequence and its label per element\n"
            "dataset = dataset.bucket_by_sequence_length(\n"
            "    lambda sequence, label: tf.shape(sequence)[0],\n"
            f"    bucket_boundaries={boundaries},\n"
            f"    bucket_batch_sizes=[batch_size] * {len(boundaries) + 1},\n"
            ").prefetch(tf.data.AUTOTUNE)",
            data={"boundaries": boundaries},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Batch by length, in place of `padded_batch` or for the arrays given to `fit`."""
        site, boundaries = finding.where[0], list(finding.data["boundaries"])
        if called(script.call(site)) == "padded_batch":
            _into_buckets(script, site, boundaries)
            return
        _give_dataset(script, site, (BY_LENGTH,), boundaries)


def _into_buckets(script: Script, site: Site, boundaries: list[int]) -> None:
    """Put `bucket_by_sequence_length` in place of `padded_batch`, with its other arguments.

    The first part of an element is taken for the sequence: where it has no length, a trial fails.
    """
    call, tf = script.call(site), script.module_name(site.file, "tensorflow", site)
    names = ("batch_size", "padded_shapes", "padding_values", "drop_remainder")
    given = {name: argument(call, name, place) for place, name in enumerate(names)}
    size = given.pop("batch_size")
    if size is None or starred(call):
        raise CannotRewrite("the batch size of padded_batch is not seen")
    parts = [
        f"lambda *element: {tf}.shape({tf}.nest.flatten(element)[0])[0]",
        str(boundaries),
        f"[{ast.unparse(size)}] * {len(boundaries) + 1}",
        *(f"{name}={ast.unparse(value)}" for name, value in given.items() if value is not None),
    ]
    script.drop_call(site)
    script.append_call(site, f".bucket_by_sequence_length({', '.join(parts)})")


def _places(evidence: Evidence, change: bool = True) -> tuple[Site, ...]:
    """The call that pads: `padded_batch`, if one was seen, or `fit`, which is given the arrays.

    To `change` batches: the last call of a pipeline that does so, and `fit`'s, if there is one.
    """
    fit, stages = evidence.loop.where, evidence.stages_
    own = [stage for stage in stages if stage.by_user] if isinstance(stages, tuple) else []
    pads = [stage.where for stage in own if stage.op == "padded_batch" and stage.where]
    found = [pads[0] if pads else fit]
    changing = [stage for stage in own if stage.op not in SAME_BATCHES]
    if change and changing and changing[-1].op in PIPELINE and changing[-1].where is not None:
        found = [changing[-1].where, fit]
    return tuple(dict.fromkeys(site for site in found if site is not None))


def _boundaries(padding: Padding) -> list[int]:
    """Lengths from which on a sequence goes into the next bucket: a few, as each is traced."""
    mean, longest = padding.mean_length, padding.padded_length
    lengths = set(padding.quartiles) or {round(mean / 2), round(mean), round((mean + longest) / 2)}
    return sorted(length + 1 for length in lengths if 0 < length < longest)


# ------------------------------------------------------------------- batches that are cut

CUT = '''\
def cut_batch(rows, *others):
    """Return a batch whose rows of numbers are cut to the longest, at a multiple of {multiple}."""
    if isinstance(rows, tf.Tensor) and rows.dtype.is_integer and rows.shape.rank == 2:
        steps = {steps}
        longest = tf.reduce_max(tf.where(rows != 0, steps, 1))
        length = -(-longest // {multiple}) * {multiple}
        rows = rows[:, {cut}]
    return (rows, *others) if others else rows
'''
STEPS = {"end": "tf.range(1, tf.shape(rows)[1] + 1)", "start": "tf.range(tf.shape(rows)[1], 0, -1)"}
PARTS = {"end": ":length", "start": "-length:"}

OF_ARRAYS = '''\
def cut_batches(rows, targets, batch_size, shuffle):
    """Return batches of arrays, each cut to its longest row."""
    rows, targets = tf.convert_to_tensor(rows), tf.convert_to_tensor(targets)

    def taken(places):
        return cut_batch(tf.gather(rows, places), tf.gather(targets, places))

    order = tf.data.Dataset.range(len(rows))
    order = order.shuffle(len(rows)) if shuffle else order
    batches = order.batch(batch_size).map(taken, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)
'''

BY_LENGTH = '''\
def by_length(rows, targets, batch_size, boundaries):
    """Return batches of rows of about the same length, without the zeros they do not need."""

    def trimmed(row, target):
        return row[: tf.reduce_max(tf.where(row != 0, tf.range(tf.size(row)), 0)) + 1], target

    data = tf.data.Dataset.from_tensor_slices((rows, targets)).shuffle(len(rows))
    data = data.map(trimmed, num_parallel_calls=tf.data.AUTOTUNE)
    sizes = [batch_size] * (len(boundaries) + 1)
    data = data.bucket_by_sequence_length(lambda row, _: tf.size(row), boundaries, sizes)
    return data.prefetch(tf.data.AUTOTUNE)
'''


def _cut_behind(script: Script, where: Sequence[Site], data: Mapping[str, Any]) -> None:
    """Cut the batches that a call of a pipeline gives: `.batch(32)` becomes `.batch(32).map(…)`."""
    if not data.get("alone"):
        raise CannotRewrite("batches hold more than one sequence and its label")
    site = where[0]
    modules = [script.source(file).module for file in {place.file for place in where}]
    compiled = [
        call
        for module in modules
        for call in module.methods("compile")
        if module.name(call.func) != "re.compile"
    ]
    if len(compiled) > 1:  # no trial comes to another model, which may read the padding
        raise CannotRewrite("several models may be given these batches")
    for place in {place.file: place for place in where}.values():
        open_inputs(script, place)
    name = put_in(script, site.file, _cutter(data))
    tf = script.module_name(site.file, "tensorflow")
    script.append_call(site, f".map({name}, num_parallel_calls={tf}.data.AUTOTUNE)")


def _cutter(data: Mapping[str, Any]) -> str:
    side, multiple = str(data["side"]), data["multiple"]
    return CUT.format(multiple=multiple, steps=STEPS[side], cut=PARTS[side])


# -------------------------------------------------------------------- arrays given to fit

FIT = ("x", "y", "batch_size")
KERAS_DEFAULT = "32"
REFUSED = (
    "validation_split", "validation_batch_size", "sample_weight", "steps_per_epoch", "shuffle"
)  # fmt: skip
"""Arguments of `fit` that mean something else for a dataset, or that it does not take."""


def _give_dataset(
    script: Script, site: Site, functions: Sequence[str], more: object, validating: object = None
) -> None:
    """Give `fit` the dataset that the last of `functions` makes of its arrays, and of `more`.

    That of the validation's arrays gets `validating`, if given. Raises `CannotRewrite` where the
    call means more than them.
    """
    call = script.call(site)
    rows, targets, size = (argument(call, name, place) for place, name in enumerate(FIT))
    if rows is None or targets is None or starred(call) or len(call.args) > len(FIT):
        raise CannotRewrite("the arrays are not written out in the call")
    for name in REFUSED:
        if keyword(call, name) is not None:
            raise CannotRewrite(f"fit is given {name}")
    open_inputs(script, site)
    maker = put_in(script, site.file, *functions)
    batch_size = KERAS_DEFAULT if size is None else ast.unparse(size)
    made = f"{maker}({ast.unparse(rows)}, {ast.unparse(targets)}, {batch_size}, {more})"
    rest = {given.arg: ast.unparse(given.value) for given in call.keywords if given.arg not in FIT}
    validated = argument(call, "validation_data")
    if validating is not None and isinstance(validated, ast.Tuple) and len(validated.elts) == 2:
        arrays = ", ".join(ast.unparse(array) for array in validated.elts)
        rest["validation_data"] = f"{maker}({arrays}, {batch_size}, {validating})"
    parts = [f"{name}={text}" for name, text in rest.items()]
    script.replace_call(site, f"{ast.unparse(call.func)}({', '.join([made, *parts])})")


def open_inputs(script: Script, site: Site) -> None:
    """Let the model take sequences of any length: `Input((200,))` becomes `Input((None,))`."""
    nodes = ast.walk(script.module(site.file))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    inputs = [call for call in calls if called(call) in ("Input", "InputLayer")]
    if len(inputs) > 1:
        raise CannotRewrite("the model has several inputs")
    for call in inputs:
        shape = argument(call, "shape", 0)
        if not isinstance(shape, ast.Tuple | ast.List) or len(shape.elts) != 1:
            raise CannotRewrite("the shape of the model's input is not written out")
        if ast.unparse(shape.elts[0]) != "None":
            script.replace_node(site.file, shape.elts[0], "None")
