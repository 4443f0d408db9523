"""A Keras model's own word: XLA, precision, optimizer, recurrent layers, padding."""

from __future__ import annotations

import gc
import math
import sys
from collections import Counter
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..process.process import Attempt, Unseen
from . import batches as tf_batches

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

_RANDOM = ("Dropout", "Noise", "Random", "Stochastic")
"""In the names of Keras's layers that draw random numbers in training: what they give changes."""

_CLOSE = 0.01
"""Largest distance of two outputs over what tells one row from another: early in a training
outputs hardly differ, whatever they are made of."""

_ROUNDING = 1e-6
"""The same over their size, for float32."""

_MOST_ROWS = 8
"""Rows that the model is asked about: what it does eagerly takes long."""


def record(driver: Driver) -> None:
    trained = getattr(driver, "model", None)
    for model in [trained] if trained is not None else _models_alive()[:4]:
        driver.record.write("model", **_model(driver, model))


def backend() -> str:
    """The name of the framework that Keras trains with."""
    config: Any = sys.modules.get("keras.src.backend.config")
    return str(config.backend()) if config is not None else "tensorflow"


def _models_alive() -> list[Any]:
    """Models in memory with trainable weights, the largest first; inner ones left out."""
    module: Any = sys.modules.get("keras.src.models.model")
    if module is None:
        return []
    models = [value for value in gc.get_objects() if issubclass(type(value), module.Model)]
    found = [model for model in models if model.trainable_variables]
    inner = {id(layer) for model in found for layer in _layers(model)}
    outer = [model for model in found if id(model) not in inner]
    outer.sort(
        key=lambda model: (-len(model.trainable_variables), type(model).__name__ == "Functional")
    )
    kept: list[Any] = []
    known: set[int] = set()
    for model in outer:  # a Sequential holds a Functional of the same variables
        variables = {id(variable) for variable in model.trainable_variables}
        if not variables <= known:
            kept.append(model)
            known |= variables
    return kept


def _layers(model: Any) -> list[Any]:
    return list(model._flatten_layers(include_self=False, recursive=True))


def _model(driver: Driver, model: Any) -> dict[str, Any]:
    layers = _layers(model)
    compiled = driver.loops.sites.get(("compile", id(model)))
    given = driver.loops.compile_arguments.get(id(model), {})
    optimizer, used = getattr(model, "optimizer", None), driver.loops.optimizers
    if used and optimizer not in used:  # what `compile` says is not what trains it
        compiled, optimizer = None, next(iter(used)) if len(used) == 1 else None
    trains = (
        layer.dtype_policy.name
        for layer in (*layers, model)
        if getattr(layer, "dtype_policy", None) and getattr(layer, "trainable_weights", 0)
    )
    facts = {
        "name": str(model.name),
        "cls": type(model).__name__,
        "parameters": int(model.count_params()) if model.built else None,
        "run_eagerly": bool(compiled and model.run_eagerly),
        "jit_requested": given.get("jit_compile", "auto") if compiled else None,
        "jit": bool(model.jit_compile) if compiled else None,
        "steps_per_execution": steps_per_execution(model) if compiled else 1,
        "optimizer": type(optimizer).__name__ if optimizer is not None else "",
        "policy": str(next(trains, "")),
        "compute_layers": dict(Counter(type(layer).__name__ for layer in layers)),
        "recurrent": [_recurrent(driver, layer) for layer in layers if _is_recurrent(layer)],
        "compile_where": compiled,
        "frozen": frozen(model) if compiled and backend() == "tensorflow" else None,
    }
    if compiled and not facts["jit"]:
        facts["jit_blocker"], facts["jit_refused"] = _jit_blocker(model, given)
    return facts


def _jit_blocker(model: Any, given: dict[str, Any]) -> tuple[str, bool]:
    """Which clause of Keras's `_resolve_auto_jit_compile` turned XLA off (Keras 3.15.1).

    And whether it does so whatever `compile` is given.
    """
    requested = given.get("jit_compile", "auto")
    if requested is False:
        return "jit_compile=False was given to compile()", False
    if model.run_eagerly:
        return "run_eagerly is on", False
    layers = _layers(model)
    blocking = [layer.name for layer in layers if getattr(layer, "supports_jit", True) is False]
    if blocking:
        return "these layers do not support XLA: " + ", ".join(blocking[:5]), True
    if backend() != "tensorflow":
        return 'jit_compile="auto" leaves torch.compile off' if backend() == "torch" else "", False
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU") and requested == "auto":
        return 'jit_compile="auto" leaves XLA off where there is no GPU', False
    if getattr(model, "_distribute_strategy", None) is not None and requested == "auto":
        return 'jit_compile="auto" leaves XLA off under tf.distribute', False
    if tf.config.experimental.is_op_determinism_enabled():
        return "op determinism is enabled", True
    return "Keras does not say why", False


def _is_recurrent(layer: Any) -> bool:
    return any(cls.__name__ == "RNN" for cls in type(layer).__mro__)


def _recurrent(driver: Driver, layer: Any) -> dict[str, Any]:
    cell, kind = getattr(layer, "cell", None), type(layer).__name__
    config: dict[str, Any] = {"unroll": bool(getattr(layer, "unroll", False))}
    for name in ("activation", "recurrent_activation"):
        if (function := getattr(cell, name, None)) is not None:
            config[name] = getattr(function, "__name__", str(function))
    for name in ("use_bias", "recurrent_dropout", "reset_after", "dropout"):
        if hasattr(cell, name):
            config[name] = getattr(cell, name)
    if hasattr(layer, "use_cudnn"):
        config["use_cudnn"] = layer.use_cudnn
    if kind == "RNN":
        config["cell"] = type(cell).__name__
    where = driver.loops.sites.get(("__init__", id(layer)))
    return {"name": layer.name, "cls": kind, "config": config, "where": where}


def record_padding(driver: Driver) -> None:
    """How much of padded integer sequences is zeros, over the batches at hand.

    `lengths` are without those at the end of a sequence, `longest` without those that all
    sequences of a batch have at an end, `side` the end that has them.
    """
    trained = getattr(driver, "model", None)
    models = _models_alive() if trained is None else [trained]
    if not any(
        getattr(layer, "mask_zero", False)
        or type(layer).__name__ == "Masking"
        or _is_recurrent(layer)
        for model in models
        for layer in _layers(model)
    ):
        return
    lengths, padded, longest = list[int](), list[int](), list[int]()
    number, ahead, batch, rows = 0, 0, None, None
    for batch in driver.recent_batches():
        for place, leaf in enumerate(tf_batches.leaves(batch)):
            shape: Any = getattr(leaf, "shape", ())
            if len(shape) == 2 and leaf.dtype.is_integer and shape[1] > 4:
                number, rows = place, leaf.numpy()
                ends = shape[1] - (rows[:, ::-1] != 0).argmax(axis=1)
                lengths += (ends * rows.any(axis=1)).tolist()
                padded += [int(shape[1])] * len(rows)
                first, end = columns_used(rows)
                longest.append(end - first)
                ahead += first
                break
    if len(lengths) >= 8:
        masked = None
        if number == 0 and len(tf_batches.leaves(batch[0])) == 1 and trained is not None:  # type: ignore[index]
            process = driver.process  # a model may be made for batches of one shape only
            with Attempt(process, "the model on a batch without its padding"), Unseen(process):
                masked = masks_padding(trained, rows)
        driver.record.write(
            "padding",
            lengths=sorted(lengths),
            padded=sum(padded) / len(padded),
            batch=len(lengths) // len(longest),
            longest=sum(longest) / len(longest),
            side="start" if ahead else "end",
            masked=masked,
            place=_place(batch) if number == 0 else None,
        )


def _place(batch: Any) -> dict[str, Any] | None:
    """Where the sequences are in a tuple that begins with them; None in any other batch."""
    if not isinstance(batch, tuple) or not hasattr(batch[0], "shape"):
        return None
    steps = batch[0].shape[1]
    along = [
        place
        for place, member in enumerate(batch)
        if any(leaf.shape[1:2] == (steps,) for leaf in tf_batches.leaves(member))
    ]
    return {"kind": "tuple", "at": 0, "along": along}


def steps_per_execution(model: Any) -> int:
    return int(getattr(model, "steps_per_execution", None) or 1)


def frozen(model: Any) -> dict[str, Any] | None:
    """The layers that come before the first that trains, if the rest can do with their output.

    They hold weights, none of which trains, and give the same for the same input: no dropout, no
    augmentation, no layer of the user's own. What follows them must need nothing else: it is
    made into a model of its own here, as the edit would. None as well where Keras cannot divide
    the model: it is subclassed, or its layers do not stand in a row.
    """
    import keras
    import tensorflow as tf

    with suppress(AttributeError, ValueError, TypeError, RuntimeError):
        layers = list(model.layers)
        ahead = list(takewhile(_gives_the_same, layers))
        parameters = sum(_count(layer.weights) for layer in ahead)
        if not parameters or len(ahead) == len(layers):
            return None
        joint = layers[len(ahead)].input
        shape = joint.shape[1:]  # a list of several inputs has none
        if None in shape:
            return None
        keras.Model(model.inputs, joint)
        keras.Model(joint, model.outputs)
        return {
            "layers": len(ahead),
            "parameters": parameters,
            "trained": _count(model.trainable_weights),
            "bytes_per_sample": math.prod(shape) * int(tf.as_dtype(joint.dtype).size),
        }
    return None


def _gives_the_same(layer: Any) -> bool:
    inner = getattr(layer, "_flatten_layers", None)
    if inner is None or layer.trainable_weights:
        return False
    return not any(map(_changes, inner(include_self=True, recursive=True)))


def _changes(layer: Any) -> bool:
    """Whether a layer's output changes from step to step, or whether that is not known."""
    kind = type(layer)
    own = not kind.__module__.startswith("keras.") or kind.__name__ == "Lambda"
    random = any(word in kind.__name__ for word in _RANDOM) and getattr(layer, "rate", 1) != 0
    averages = kind.__name__ == "BatchNormalization" and layer.trainable
    return own or random or averages


def _count(weights: Any) -> int:
    return sum(math.prod(map(int, weight.shape)) for weight in weights)


def columns_used(rows: Any) -> tuple[int, int]:
    """The columns of integer rows, first and end, outside of which all is zero."""
    places = (rows != 0).any(axis=0).nonzero()[0]
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 1)


def masks_padding(model: Any, rows: Any) -> bool | None:
    """Whether the model gives the same for its shorter rows without the zeros they all have.

    Called in inference, beside its training. None where no zeros can be cut, the model keeps
    state between batches or is replicated, or it gives something for each step.
    """
    import numpy as np
    import tensorflow as tf

    if getattr(model, "_distribute_strategy", None) is not None:
        return None
    if any(getattr(layer, "stateful", False) for layer in model._flatten_layers()):
        return None
    order = (rows != 0).sum(axis=1).argsort(kind="stable")
    some = rows[order[: max(1, min(_MOST_ROWS, len(rows) // 2))]]
    first, end = columns_used(some)
    if end - first >= rows.shape[1]:
        return None
    pairs = [
        [np.asarray(output, "float64") for output in tf.nest.flatten(model(given, training=False))]
        for given in (tf.constant(some), tf.constant(some[:, first:end]))
    ]
    if any(output.ndim > 1 and output.shape[1] == rows.shape[1] for output in pairs[0]):
        return None
    for whole, cut in zip(*pairs, strict=True):
        if whole.shape != cut.shape:
            return False
        most = _CLOSE * whole.std(axis=0).mean() + _ROUNDING * abs(whole).mean()
        if abs(whole - cut).max() > most:
            return False
    return True
