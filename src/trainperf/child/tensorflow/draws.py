"""Where the function of a `map` begins to draw random numbers, and how large elements are there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice, takewhile
from typing import Any

from .batches import size_in_bytes

RANDOM_OPS = "Random"
ELEMENTS = 4
"""Elements that are made as far as that: images of a folder differ in size."""


def drawn_from(node: Any, function: Mapping[str, Any] | None) -> dict[str, int] | None:
    """The line of `function` at which it first draws, and the bytes that it works on from there.

    That is what a cache ahead of the line would hold of one element. None for a stage that does
    not draw, or does so elsewhere than in that function.
    """
    wrapper = getattr(node, "_map_func", None)
    if wrapper is None or function is None:
        return None
    graph = wrapper.function.graph
    operations = graph.get_operations()
    functions = {one.signature.name: one.node_def for one in graph.as_graph_def().library.function}
    first = next((one for one in operations if _draws(one.node_def, functions)), None)
    line = 0 if first is None else _line(first, function)
    if not line:
        return None
    ahead = list(takewhile(lambda one: _line(one, function) < line, operations))
    sizes = [size_in_bytes(one) for one in _made(node, graph, _crossing(graph, ahead))]
    return {"line": line, "bytes": sum(sizes) // len(sizes)} if sizes else None


def _draws(node: Any, functions: Mapping[str, Any]) -> bool:
    """Whether a node draws, or one of the functions that it calls: a branch, a loop's body."""
    values = node.attr.values()
    called = [value.func.name for value in values if value.HasField("func")]
    called += [one.name for value in values for one in value.list.func]
    return RANDOM_OPS in node.op or any(
        _draws(one, functions) for name in called for one in functions.get(name, ())
    )


def _line(operation: Any, function: Mapping[str, Any]) -> int:
    """The line of the function at which an operation was made; 0 for one made outside."""
    for frame in operation.traceback:
        if frame.name == function["name"] and os.path.abspath(frame.filename) == function["file"]:
            return int(frame.lineno)
    return 0


def _crossing(graph: Any, ahead: list[Any]) -> list[str]:
    """The names of the values made by the operations `ahead` that are used behind them."""
    early, captured = {one.name for one in ahead}, {one.name for one in graph.internal_captures}
    late = (one for one in graph.get_operations() if one.name not in early)
    used = {value.name for one in late for value in one.inputs}
    used |= {value.name for value in graph.outputs}
    made = (value for one in ahead if one.type != "Const" for value in one.outputs)
    return [value.name for value in made if value.name in used - captured]


def _made(node: Any, graph: Any, names: list[str]) -> list[Any]:
    """The values of these names for a few elements, made by that part of the graph alone."""
    import tensorflow as tf

    if not names:
        return []
    definition = graph.as_graph_def()
    whole = tf.compat.v1.wrap_function(
        lambda: tf.graph_util.import_graph_def(definition, name=""), []
    )
    feeds = [whole.graph.get_tensor_by_name(value.name) for value in graph.inputs]
    part = whole.prune(feeds, [whole.graph.get_tensor_by_name(name) for name in names])
    given = node._map_func.function.captured_inputs
    elements = islice(iter(node._inputs()[0]), ELEMENTS)
    return [part(*tf.nest.flatten(one, expand_composites=True), *given) for one in elements]
