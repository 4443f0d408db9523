"""Batches of padded rows that are cut to what their own rows hold; the batches stay the same."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.ahead import free_name
from trainperf.fixes.tf_data.edits.buckets import fit_of_arrays, open_inputs
from trainperf.source.arguments import argument, starred

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

CUT = '''\
def {name}(rows, targets, batch_size, shuffle):
    """Return batches, each cut to its longest row; lengths are multiples of {multiple}."""
    rows, targets = {tf}.convert_to_tensor(rows), {tf}.convert_to_tensor(targets)
    steps = {steps}

    def taken(places):
        batch = {tf}.gather(rows, places)
        longest = {tf}.reduce_max({tf}.where(batch != 0, steps, 1))
        length = -(-longest // {multiple}) * {multiple}
        return batch[:, {cut}], {tf}.gather(targets, places)

    order = {tf}.data.Dataset.range(len(rows))
    order = order.shuffle(len(rows)) if shuffle else order
    batches = order.batch(batch_size).map(taken, num_parallel_calls={tf}.data.AUTOTUNE)
    return batches.prefetch({tf}.data.AUTOTUNE)
'''
STEPS = {"end": "{tf}.range(1, rows.shape[1] + 1)", "start": "{tf}.range(rows.shape[1], 0, -1)"}
PARTS = {"end": ":length", "start": "-length:"}


def cut_batches(script: Script, site: Site, data: Mapping[str, Any]) -> None:
    """Cut the batches of the call at `site`, `padded_batch` or `fit`, to their longest row.

    `data` has "side", the end of the rows that holds their padding, and "multiple", of which
    lengths are. Raises `CannotRewrite` where the arrays, or the lengths, are not written out.
    """
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    if not isinstance(call, ast.Call) or starred(call):
        raise CannotRewrite("the arguments of the call are not written out")
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "padded_batch":
        _open_shapes(script, site)
    elif name == "fit":
        _fit(script, site, call, data)
    else:
        raise CannotRewrite("where sequences are padded is not seen")


def _open_shapes(script: Script, site: Site) -> None:
    """Let `padded_batch` pad to the batch's longest: `([200], [])` becomes `([None], [])`."""
    call = script.call(site)
    shapes = argument(call, "padded_shapes", 1)
    fixed = [
        each
        for node in ast.walk(shapes or ast.Constant(None))
        if isinstance(node, ast.List | ast.Tuple)
        for each in node.elts[:1]
        if _is_length(each) and len(node.elts) == 1
    ]
    if len(fixed) != 1:
        raise CannotRewrite("which length padded_batch pads to is not written out in the call")
    open_inputs(script, site)
    script.replace_node(site.file, fixed[0], "None")


def _is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) or (
        isinstance(node, ast.Constant) and isinstance(node.value, int)
    )


def _fit(script: Script, site: Site, call: ast.Call, data: Mapping[str, Any]) -> None:
    fit = fit_of_arrays(call)
    open_inputs(script, site)
    tf = script.module_name(site.file, "tensorflow")
    side = str(data["side"])
    name = free_name(script, site.file, "cut_batches", "batches_cut")
    text = CUT.format(
        name=name,
        tf=tf,
        multiple=data["multiple"],
        steps=STEPS[side].format(tf=tf),
        cut=PARTS[side],
    )
    script.insert_function(site.file, text)
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
