"""Whether a Keras model gives the same without the padding of its batch."""

from __future__ import annotations

from typing import Any

CLOSE = 0.01
"""Largest distance of two outputs over what tells one row from another: early in a training
outputs hardly differ, whatever they are made of."""

ROUNDING = 1e-6
"""The same over their size, for float32."""

MOST_ROWS = 8
"""Rows that the model is asked about: what it does eagerly takes long."""


def used(rows: Any) -> tuple[int, int]:
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
    some = rows[order[: max(1, min(MOST_ROWS, len(rows) // 2))]]
    first, end = used(some)
    if end - first >= rows.shape[1]:
        return None
    whole, cut = (
        [
            np.asarray(one, "float64")
            for one in tf.nest.flatten(model(tf.constant(given), training=False))
        ]
        for given in (some, some[:, first:end])
    )
    if any(one.ndim > 1 and one.shape[1] == rows.shape[1] for one in whole):
        return None
    return _alike(whole, cut)


def _alike(whole: list[Any], cut: list[Any]) -> bool:
    for one, other in zip(whole, cut, strict=True):
        if one.shape != other.shape:
            return False
        between_rows = float(one.std(axis=0).mean())
        if float(abs(one - other).max()) > CLOSE * between_rows + ROUNDING * float(abs(one).mean()):
            return False
    return True
