"""The part of a Keras model that does not train, ahead of the part that does."""

from __future__ import annotations

import math
from typing import Any

RANDOM = ("Dropout", "Noise", "Random", "Stochastic")
"""In the names of Keras's layers that draw random numbers in training: what they give changes."""

KERAS = ("keras.", "tf_keras.")


def frozen(model: Any) -> dict[str, Any] | None:
    """The layers that come before the first that trains, if the rest can do with their output.

    They hold weights, none of which trains, and give the same for the same input: no dropout, no
    augmentation, no layer of the user's own. What follows them must need nothing else: it is
    made into a model of its own here, as the edit would. None as well where Keras cannot divide
    the model: it is subclassed, or its layers do not stand in a row.
    """
    try:
        return _divided(model)
    except (AttributeError, ValueError, TypeError, RuntimeError):
        return None


def _divided(model: Any) -> dict[str, Any] | None:
    layers = list(model.layers)
    ahead = 0
    while ahead < len(layers) and _gives_the_same(layers[ahead]):
        ahead += 1
    parameters = sum(_count(layer.weights) for layer in layers[:ahead])
    if not parameters or ahead == len(layers):
        return None
    joint = layers[ahead].input
    shape = getattr(joint, "shape", None)
    if shape is None:  # several inputs
        return None
    known = [int(one) for one in shape[1:] if one is not None]
    if len(known) != len(shape) - 1:
        return None
    kind = _model_class()
    kind(model.inputs, joint)
    kind(joint, model.outputs)
    return {
        "layers": ahead,
        "parameters": parameters,
        "trained": _count(model.trainable_weights),
        "bytes_per_sample": math.prod(known) * _itemsize(joint.dtype),
    }


def _model_class() -> Any:
    import keras

    return keras.Model


def _gives_the_same(layer: Any) -> bool:
    inner = getattr(layer, "_flatten_layers", None)
    if inner is None or layer.trainable_weights:
        return False
    return not any(_changes(one) for one in inner(include_self=True, recursive=True))


def _changes(layer: Any) -> bool:
    """Whether a layer's output changes from step to step, or whether that is not known."""
    kind = type(layer)
    own = not kind.__module__.startswith(KERAS) or kind.__name__ == "Lambda"
    random = any(word in kind.__name__ for word in RANDOM) and getattr(layer, "rate", 1) != 0
    averages = kind.__name__ == "BatchNormalization" and layer.trainable
    return own or random or averages


def _count(weights: Any) -> int:
    return sum(math.prod(int(one) for one in weight.shape) for weight in weights)


def _itemsize(dtype: Any) -> int:
    import tensorflow as tf

    return int(tf.as_dtype(dtype).size)
