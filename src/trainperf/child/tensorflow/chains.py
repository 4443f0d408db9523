"""The datasets of a tf.data chain, and the operations of their functions."""

from __future__ import annotations

from typing import Any

ADAPTER_CALLS = ("fit", "error_handler", "train_on_batch", "_enumerate_iterator")
"""Calls within Keras that make stages of their own around what the user gave."""


def chain(dataset: Any) -> list[Any]:
    """The stages from the source to `dataset`, inputs before what uses them."""
    seen: list[Any] = []

    def visit(node: Any) -> None:
        for parent in node._inputs():
            visit(parent)
        if not any(node is one for one in seen):
            seen.append(node)

    visit(dataset)
    return seen


def op_types(wrapper: Any) -> set[str]:
    """The kinds of operations in a stage's function, those of what it calls included."""
    definition = wrapper.function.graph.as_graph_def(add_shapes=False)
    types = {node.op for node in definition.node}
    for function in definition.library.function:
        types |= {node.op for node in function.node_def}
    return types
