"""Take a tf.data chain apart: what each stage is, and what each prefix costs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.process import Attempt, in_words
from ..timing.budget import Budget
from .batches import (
    ADAPTER_CALLS,
    chain,
    graph_pull,
    op_types,
    size_in_bytes,
    undistributed,
)
from .facts import fit_facts

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

STAGE_S = 0.3
"""Seconds spent on one prefix at most, once it has delivered two elements."""

PYTHON_OPS = ("PyFunc", "EagerPyFunc", "PyFuncStateless")
_ADAPTERS = {
    "PyDataset": "PyDataset",
    "generator": "generator",
    "numpy": "NumPy arrays",
    "tensors": "tensors",
}

_OPS = {
    "parallel_map": "map",
    "parallel_batch": "batch",
    "parallel_interleave": "interleave",
    "tensor_slice": "from_tensor_slices",
    "tensor": "from_tensors",
}
"""The methods that make stages, by the words of their classes, where these are others."""

_ARGUMENTS = {
    "_num_parallel_calls": "num_parallel_calls",
    "_buffer_size": "buffer_size",
    "_batch_size": "batch_size",
    "_drop_remainder": "drop_remainder",
    "_cycle_length": "cycle_length",
    "_count": "count",
    "_deterministic": "deterministic",
    "_filename": "cache_file",
}
"""What is recorded of a stage, by the attributes that hold it."""

_RANDOM_OPS = "Random"
_OTHER_NUMBERS = (
    "FlatMap", "Interleave", "Unbatch", "Filter", "Window", "Rebatch", "Group", "Concatenate",
    "Sample", "Choose",
)  # fmt: skip
"""In the names of stages whose elements are not told by those they give."""
_ELEMENTS = 4
"""Elements that are made as far as that: images of a folder differ in size."""


def record(driver: Driver, deadline: float) -> None:
    """Record every stage of the loop's dataset, timed prefix by prefix."""
    dataset = undistributed(driver.dataset())
    if dataset is None:
        driver.record.write("missing", what="stages", reason="the loop has no tf.data dataset")
        return
    nodes = _collapse(chain(dataset))
    kind = _ADAPTERS.get(fit_facts(driver).get("input_kind", ""), "")
    described = [_describe(node, kind) for node in nodes]
    for index, fields in enumerate(described):
        driver.record.write("stage", index=index, **fields)
    counts = _elements_per_step(nodes, float(getattr(driver, "batches_per_step", 1)))
    pull = graph_pull(driver.process)
    overhead = _pull_overhead(pull)
    for index, (node, stage) in enumerate(zip(nodes, described, strict=True)):
        share = (deadline - time.monotonic()) / (len(nodes) - index)
        timed: dict[str, Any]
        if share <= 0.02:
            lacking = STAGE_S * (len(nodes) - index)
            timed = {"missing": Budget.of(driver).lacking(lacking, time.monotonic())}
        else:
            try:
                timed = _time_prefix(node, pull, min(STAGE_S, share), overhead)
                timed["elements_per_step"] = counts[index]
            except Exception as error:
                timed = {"missing": in_words(error)}
        if "first_s" in timed and stage.get("random") and not stage["python"]:
            with Attempt(driver.process, "the work ahead of random numbers"):
                timed["drawn_from"] = drawn_from(node, stage["function"])
        driver.record.write("stage_time", index=index, **timed)
        driver.record.flush()


def _collapse(nodes: list[Any]) -> list[Any]:
    """Keep the last of the nodes that one call of the user's built (`from_generator`)."""
    kept: list[Any] = []
    for node in nodes:
        site = getattr(node, "_trainperf_site", None)
        if kept and site is not None and site == getattr(kept[-1], "_trainperf_site", None):
            kept[-1] = node
        else:
            kept.append(node)
    return [node for node in kept if type(node).__name__ != "_OptionsDataset"] or kept


def _describe(node: Any, adapter: str) -> dict[str, Any]:
    call, where = getattr(node, "_trainperf_call", ""), getattr(node, "_trainperf_site", None)
    by_user = call not in ADAPTER_CALLS and where is not None
    name = type(node).__name__.strip("_")
    if by_user and call == "__init__":
        op = name.removesuffix("V2").removesuffix("V1")
    elif by_user and not call.startswith("_"):
        op = call
    elif call in ADAPTER_CALLS and adapter:
        op = adapter
    else:
        name = name.removesuffix("Dataset").removesuffix("DatasetV2")
        words = "".join("_" + c.lower() if c.isupper() else c for c in name).strip("_")
        op = _OPS.get(words, words)
    count = int(node.cardinality())
    described = {
        "op": op,
        "where": where,
        "by_user": by_user,
        "arguments": _arguments(node),
        "cardinality": None if count == -2 else count,
    }
    function = getattr(node, "_map_func", None) or getattr(node, "_predicate", None)
    return described if function is None else described | _function(function)


def _arguments(node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute, name in _ARGUMENTS.items():
        value = getattr(node, attribute, None)
        if value is None:
            continue
        value = value.numpy() if hasattr(value, "numpy") else value
        value = value.decode(errors="replace") if isinstance(value, bytes) else value
        found[name] = value.item() if hasattr(value, "item") else value
    if type(node).__name__.strip("_") in ("MapDataset", "InterleaveDataset"):
        found["num_parallel_calls"] = None
    return found


def _function(wrapper: Any) -> dict[str, Any]:
    ops = op_types(wrapper)
    python = any(op in PYTHON_OPS for op in ops)
    stateful = any(  # tf.data would refuse to run it in parallel by itself
        operation.op_def is not None and operation.op_def.is_stateful
        for operation in wrapper.function.graph.get_operations()
        if operation.type not in ("Placeholder", "Assert")
    )
    return {
        "function": _users_function(getattr(wrapper, "_func", None)),
        "ops": sorted(ops)[:200],
        "python": python,
        "random": any(_RANDOM_OPS in op for op in ops),
        "stateful": python or stateful,
    }


def _users_function(function: Any, depth: int = 5) -> dict[str, Any] | None:
    """Find the user's function in a chain of closures, wrappers and bound methods."""
    if function is None or depth == 0:
        return None
    function = getattr(function, "_python_function", None) or function
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)
    if code is not None and frames.is_users(code.co_filename):
        described = frames.definition(code)
        return {"name": code.co_name, "file": described["file"], "line": described["line"]}
    for cell in getattr(function, "__closure__", None) or ():
        try:
            inner = cell.cell_contents
        except ValueError:
            continue
        inner = getattr(inner, "_generator", inner)  # what `from_generator` keeps its own in
        if callable(inner) and (found := _users_function(inner, depth - 1)):
            return found
    return None


def _elements_per_step(nodes: list[Any], last: float) -> list[float | None]:
    """How many elements leave each stage in one step; None where it cannot be told."""
    counts: dict[int, float | None] = {id(nodes[-1]): last}
    for node in reversed(nodes):
        count = counts.get(id(node))
        for parent in _kept_inputs(node, nodes):
            counts[id(parent)] = None if count is None else _inputs_for(node, count)
    return [counts.get(id(node)) for node in nodes]


def batches_of_pass(dataset: Any) -> float | None:
    """How many batches come of one pass over what a dataset repeats; None where it cannot be told.

    Where batches are made of what is repeated, one may hold the end of a pass and begin the next.
    """
    nodes = chain(dataset) if hasattr(dataset, "_inputs") else []
    counts = _elements_per_step(nodes, 1.0) if nodes else []
    for node, count in zip(nodes, counts, strict=True):
        if "Repeat" in type(node).__name__ and count:
            size = int(node._inputs()[0].cardinality())
            return size / count if size > 0 else None
    return None


def _kept_inputs(node: Any, nodes: list[Any]) -> list[Any]:
    found: list[Any] = []
    for parent in node._inputs():
        kept = any(parent is stage for stage in nodes)
        found += [parent] if kept else _kept_inputs(parent, nodes)
    return found


def _inputs_for(node: Any, count: float) -> float | None:
    kind = type(node).__name__
    if any(word in kind for word in _OTHER_NUMBERS):
        return None
    if "Batch" in kind:
        size = _arguments(node).get("batch_size")
        return count * size if size else None
    return count


def _pull_overhead(pull: Any) -> float:
    """Seconds per element that the pulling loop itself costs, on a trivial source."""
    import tensorflow as tf

    iterator = iter(tf.data.Dataset.range(10**9).prefetch(64))
    pull(iterator, 50)
    began = time.monotonic()
    pull(iterator, 400)
    return (time.monotonic() - began) / 400


def _time_prefix(node: Any, pull: Any, seconds: float, overhead: float) -> dict[str, Any]:
    began = time.monotonic()
    iterator = iter(node)
    element = next(iterator, None)
    if element is None:
        return {"missing": "it delivered nothing"}
    timed = {"first_s": time.monotonic() - began, "element_bytes": size_in_bytes(element)}
    del element
    pulled, chunk = 0, 1
    if not pull(iterator, 1):  # the first call traces; its element is not timed
        return {"missing": "it has a single element", **timed}
    began = time.monotonic()
    while True:
        before = time.monotonic()
        got = pull(iterator, chunk)
        pulled += got
        now = time.monotonic()
        if got < chunk or (now - began > seconds and pulled >= 2):
            break
        if now - before < 0.02:
            chunk = min(chunk * 2, 4096)
    if not pulled:
        return {"missing": "it has too few elements", **timed}
    return {"seconds": max(0.0, (time.monotonic() - began) / pulled - overhead), **timed}


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
    functions = {
        made.signature.name: made.node_def for made in graph.as_graph_def().library.function
    }
    first = next((op for op in operations if _draws(op.node_def, functions)), None)
    line = 0 if first is None else _line(first, function)
    if not line:
        return None
    ahead = list(takewhile(lambda made: _line(made, function) < line, operations))
    sizes = [size_in_bytes(made) for made in _made(node, graph, _crossing(graph, ahead))]
    return {"line": line, "bytes": sum(sizes) // len(sizes)} if sizes else None


def _draws(node: Any, functions: Mapping[str, Any]) -> bool:
    """Whether a node draws, or one of the functions that it calls: a branch, a loop's body."""
    called = [
        function.name
        for value in node.attr.values()
        for function in (value.func, *value.list.func)
        if function.name in functions
    ]
    return _RANDOM_OPS in node.op or any(
        _draws(inner, functions) for name in called for inner in functions[name]
    )


def _line(operation: Any, function: Mapping[str, Any]) -> int:
    """The line of the function at which an operation was made; 0 for one made outside."""
    for frame in operation.traceback:
        if frame.name == function["name"] and os.path.abspath(frame.filename) == function["file"]:
            return int(frame.lineno)
    return 0


def _crossing(graph: Any, ahead: list[Any]) -> list[str]:
    """The names of the values made by the operations `ahead` that are used behind them."""
    early, captured = {op.name for op in ahead}, {value.name for value in graph.internal_captures}
    late = (op for op in graph.get_operations() if op.name not in early)
    used = {value.name for op in late for value in op.inputs}
    used |= {value.name for value in graph.outputs}
    made = (value for op in ahead if op.type != "Const" for value in op.outputs)
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
    elements = islice(iter(node._inputs()[0]), _ELEMENTS)
    return [part(*tf.nest.flatten(element, expand_composites=True), *given) for element in elements]
