"""`predict_on_batch`, where it may stand for another call of a Keras 3 model."""

from __future__ import annotations

from typing import Any

from .calls import samples

MOST_ROWS = 32
"""Samples that `predict` takes as one batch by default."""

FOREIGN = frozenset({"FlaxLayer", "JaxLayer", "Lambda", "TFSMLayer", "TorchModuleWrapper"})
"""Layers of Keras's that run what is not."""


def is_keras(model: Any) -> bool:
    """Whether all layers are Keras's, none of them with code of the user's."""
    return all(
        type(layer).__module__.startswith("keras.") and type(layer).__name__ not in FOREIGN
        for layer in model._flatten_layers()
    )


class OnBatch:
    """`predict_on_batch` of one model, on one input."""

    def __init__(self, model: Any, x: Any) -> None:
        self._model = model
        self._x = x
        generators = [one for layer in model._flatten_layers() for one in layer._seed_generators]
        self._states = [(one.state, one.state.numpy().copy()) for one in generators]

    def __call__(self) -> Any:
        """Make the call."""
        return self._model.predict_on_batch(self._x)

    def traces(self) -> int:
        """Those of the function that the model predicts with; without one there are none."""
        count = getattr(self._model.predict_function, "experimental_get_tracing_count", None)
        return 0 if count is None else int(count())

    def undo(self) -> bool:
        """Put back the states of its random generators, if it drew from them."""
        drawn = [(state, was) for state, was in self._states if (state.numpy() != was).any()]
        for state, was in drawn:
            state.assign(was)
        return bool(drawn)

    def apart(self, result: Any, other: Any) -> float:
        """The largest difference, as a share of the largest number of its array."""
        from tensorflow import nest

        ones, others = nest.flatten(result), nest.flatten(other)
        if len(ones) != len(others):
            return 1.0
        return max(map(_apart, ones, others), default=0.0)


def on_batch(model: Any, x: Any) -> OnBatch | None:
    """Return it where it changes nothing: without state, chance or code of the user's."""
    still = not any(getattr(one, "stateful", False) for one in model._flatten_layers())
    return OnBatch(model, x) if still and is_keras(model) else None


def of_predict(args: tuple[Any, ...], kwargs: dict[str, Any]) -> OnBatch | None:
    """Return what could stand for `predict(self, x)`, where that is told of one small batch."""
    model, *given = args
    if len(given) > 1 or not kwargs.keys() <= {"x", "verbose", "batch_size"}:
        return None
    x = given[0] if given else kwargs.get("x")
    count, size = samples(x), kwargs.get("batch_size")
    if count is None or count > (MOST_ROWS if size is None else min(size, MOST_ROWS)):
        return None
    return on_batch(model, x)


def _apart(result: Any, other: Any) -> float:
    import numpy as np

    one, two = np.asarray(result), np.asarray(other)
    if one.shape != two.shape:
        return 1.0
    if one.dtype.kind in "OSU":
        return 0.0 if np.array_equal(one, two) else 1.0
    first, second = one.astype("float64"), two.astype("float64")
    if np.array_equal(first, second, equal_nan=True):
        return 0.0
    with np.errstate(all="ignore"):
        apart = float(np.abs(first - second).max() / np.abs(first).max())
    return min(apart, 1.0) if apart == apart else 1.0
