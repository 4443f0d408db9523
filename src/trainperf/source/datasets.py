"""Chains of `tf.data` stages, followed through assignments."""

from __future__ import annotations

import ast

from trainperf.source.arguments import argument
from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS, Binding

_CLASS = "tensorflow.data.Dataset"
_SOURCES = {
    *(
        f"{_CLASS}.{name}"
        for name in (
            "from_tensor_slices", "from_tensors", "from_generator", "list_files", "range", "zip",
            "sample_from_datasets", "choose_from_datasets", "random", "load",
        )
    ),
    "tensorflow.data.TFRecordDataset",
    "tensorflow.data.TextLineDataset",
    "tensorflow.data.FixedLengthRecordDataset",
    "tensorflow.data.experimental.CsvDataset",
    "tensorflow.data.experimental.make_csv_dataset",
    "keras.utils.image_dataset_from_directory",
    "keras.utils.text_dataset_from_directory",
    "keras.utils.audio_dataset_from_directory",
    "keras.utils.timeseries_dataset_from_array",
    "keras.preprocessing.image_dataset_from_directory",
    "keras.preprocessing.text_dataset_from_directory",
}  # fmt: skip
_STAGES = {
    "apply", "batch", "bucket_by_sequence_length", "cache", "concatenate", "enumerate", "filter",
    "flat_map", "group_by_window", "ignore_errors", "interleave", "map", "padded_batch",
    "prefetch", "ragged_batch", "rebatch", "rejection_resample", "repeat", "scan", "shard",
    "shuffle", "skip", "snapshot", "take", "take_while", "unbatch", "unique", "window",
    "with_options",
}  # fmt: skip
_MOST = 200
"""Nodes that are looked at for one answer; beyond them it is not certain."""


def is_dataset(module: Module, node: ast.expr | None) -> bool:
    """Tell whether `node` is certainly a `tf.data.Dataset`."""
    return _is_dataset(module, node, set()) is True


def _is_dataset(module: Module, node: ast.expr | None, seen: set[int]) -> bool | None:
    """Tell whether `node` is a dataset; None where that hangs on what is in `seen`.

    Each node is looked at once: a notebook binds one name to itself in cell after cell.
    """
    if node is None or len(seen) > _MOST:
        return False
    if id(node) in seen:
        return None
    seen.add(id(node))
    if isinstance(node, ast.Call):
        name = module.name(node.func)
        if name in _SOURCES:
            return True
        if name == "tensorflow_datasets.load":
            split = argument(node, "split", 1)
            info = argument(node, "with_info")
            return isinstance(module.constant(split), str) and info is None
        if isinstance(node.func, ast.Attribute) and node.func.attr in _STAGES:
            return _is_dataset(module, node.func.value, seen)
        return _returns_dataset(module, node.func, seen)
    found = module.bindings(node) or []
    return _all([_is_bound_to_dataset(module, each, seen) for each in found])


def _is_bound_to_dataset(module: Module, binding: Binding, seen: set[int]) -> bool | None:
    if binding.kind == "parameter":
        return binding.value is not None and module.name(binding.value) == _CLASS
    return binding.kind == "value" and _is_dataset(module, binding.value, seen)


def _returns_dataset(module: Module, function: ast.expr, seen: set[int]) -> bool | None:
    local = module.definition(function)
    if not isinstance(local, FUNCTIONS):
        return False
    if id(local) in seen:
        return None
    seen.add(id(local))
    returned = [each.value for each in inside(local) if isinstance(each, ast.Return)]
    return _all([_is_dataset(module, each, seen) for each in returned])


def _all(answers: list[bool | None]) -> bool | None:
    """Return False if one is; True if one is and the others hang on it."""
    if False in answers or not answers:
        return False
    return True if True in answers else None
