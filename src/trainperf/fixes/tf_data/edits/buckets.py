"""Batches of sequences of about the same length, in place of `padded_batch` or padded arrays."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, keyword, starred

PADDED = ("batch_size", "padded_shapes", "padding_values", "drop_remainder")
"""The arguments of `padded_batch` in their order; the last three are those of buckets as well."""

FIT = ("x", "y", "batch_size")
KERAS_DEFAULT = 32
REFUSED = ("validation_split", "sample_weight", "steps_per_epoch", "shuffle")
"""Arguments of `fit` that mean something else for a dataset, or that it does not take."""

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


def batch_by_length(script: Script, site: Site, data: Mapping[str, Any]) -> None:
    """Batch the sequences of the call at `site`, `padded_batch` or `fit`, by their length.

    `data` has "boundaries", from lengths that were seen, and "leaf", which tensor of an element
    they are of. Raises `CannotRewrite` where the length is fixed, or not seen.
    """
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    if not isinstance(call, ast.Call) or starred(call):
        raise CannotRewrite("the arguments of the call are not written out")
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "padded_batch":
        script.replace_last_call(site, _buckets(script, site, call, data))
    elif name == "fit":
        _fit(script, site, call, data)
    else:
        raise CannotRewrite("where sequences are padded is not seen")


def _buckets(script: Script, site: Site, call: ast.Call, data: Mapping[str, Any]) -> str:
    tf = script.module_name(site.file, "tensorflow", site)
    given = {name: argument(call, name, place) for place, name in enumerate(PADDED)}
    size, shapes = given.pop("batch_size"), given["padded_shapes"]
    if size is None:
        raise CannotRewrite("batch_size is not written out in the call")
    fixed = [each for each in ast.walk(shapes) if _is_length(each)] if shapes else []
    if fixed:
        raise CannotRewrite("sequences are padded to a length that is given")
    text = ast.unparse(size)
    text = text if isinstance(size, ast.Name | ast.Constant | ast.Attribute) else f"({text})"
    boundaries = list(data["boundaries"])
    parts = [
        f"lambda *element: {tf}.shape({tf}.nest.flatten(element)[{data['leaf']}])[0]",
        str(boundaries),
        f"[{text}] * {len(boundaries) + 1}",
        *(f"{name}={ast.unparse(value)}" for name, value in given.items() if value is not None),
    ]
    return f".bucket_by_sequence_length({', '.join(parts)})"


def _is_length(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 1


# -------------------------------------------------------------------- arrays given to fit


@dataclass(frozen=True)
class Fit:
    """A call of `fit` that is given arrays: their source, and the other arguments."""

    function: str
    rows: str
    targets: str
    batch_size: str
    rest: tuple[ast.keyword, ...]


def fit_of_arrays(call: ast.Call) -> Fit:
    """Return the parts of a call of `fit`; raises `CannotRewrite` where it means more than them."""
    given = {name: argument(call, name, place) for place, name in enumerate(FIT)}
    rows, targets, size = (given[name] for name in FIT)
    if rows is None or targets is None or len(call.args) > len(FIT):
        raise CannotRewrite("the arrays are not written out in the call")
    for name in REFUSED:
        if keyword(call, name) is not None:
            raise CannotRewrite(f"fit is given {name}")
    if not isinstance(rows, ast.Name | ast.Attribute | ast.Subscript):
        raise CannotRewrite("the model takes several arrays")
    return Fit(
        ast.unparse(call.func),
        ast.unparse(rows),
        ast.unparse(targets),
        ast.unparse(size) if size is not None else str(KERAS_DEFAULT),
        tuple(each for each in call.keywords if each.arg not in FIT),
    )


def _fit(script: Script, site: Site, call: ast.Call, data: Mapping[str, Any]) -> None:
    fit = fit_of_arrays(call)
    open_inputs(script, site)
    tf = script.module_name(site.file, "tensorflow")
    helper = script.free_name(site.file, "by_length", "batches_by_length")
    script.insert_function(
        site.file, BY_LENGTH.replace("tf.", f"{tf}.").replace("by_length", helper, 1)
    )
    made = f"{helper}({fit.rows}, {fit.targets}, {fit.batch_size}, {list(data['boundaries'])})"
    rest = [ast.unparse(each) for each in fit.rest]
    script.replace_call(site, f"{fit.function}({', '.join([made, *rest])})")


def open_inputs(script: Script, site: Site) -> None:
    """Let the model take sequences of any length: `Input((200,))` becomes `Input((None,))`."""
    tree = script.module(site.file)
    inputs = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _is_input(each)]
    embeddings = [
        each.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for each in call.keywords
        if each.arg == "input_length"
    ]
    if len(inputs) > 1 or embeddings:
        raise CannotRewrite("the model has several inputs, or the length of sequences")
    for call in inputs:
        shape = argument(call, "shape", 0)
        if not isinstance(shape, ast.Tuple | ast.List) or len(shape.elts) != 1:
            raise CannotRewrite("the shape of the model's input is not written out")
        length = shape.elts[0]
        if isinstance(length, ast.Constant) and length.value is None:
            continue
        script.replace_call(script.site_of(site, length), "None")
    flat = ("Flatten", "Reshape", "Permute")
    names = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    names |= {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    if names & set(flat):
        raise CannotRewrite("the model flattens what it is given: its length is fixed")


def _is_input(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] in ("Input", "InputLayer")
