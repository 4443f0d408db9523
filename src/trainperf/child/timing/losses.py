"""Keep what the steps of a leg show of their losses, without slowing them.

Keras's `fit` shows in its logs the mean loss since the epoch began, `train_on_batch`
that of its batch; a loop of the user's shows what its step function returns, or what
its tape derives. During a step only a reference is kept: nothing is copied, nothing
waits for the device. `flush`, called while no step is timed, does both.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

from ..process.process import Attempt, Process, Unseen

MOST = 512
"""So many losses are kept between two flushes: those of the first updates, which legs share."""
OTHERS = 100
"""After so many updates by others the one by which updates were counted is given up."""


class Losses:
    """The losses of one process, by the number of weight updates, from 1.

    A loop with several optimizers or step functions is counted by the first of them.
    Sums of the trainable weights, from the variables that a tape was asked for, are
    taken at a few updates of the warm-up, and at each flush if no loss was ever seen.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        leg = process.settings.get("leg") or {}
        self._warm_up_steps = int(leg.get("warm_up_steps") or 0)
        self.updates = 0
        self._kept: list[tuple[Any, Any, int]] = []
        self._source = ""
        self._seen = False
        self._anchor: Any = None
        self._others = 0
        self._mean_of = 0
        self._counted_from: tuple[int, Any] | None = None
        self._target: Any = None
        self._vector: Any = None
        self._variables: list[Any] | None = None
        self._sums: list[tuple[int, float, int]] = []

    # ------------------------------------------------------------ from the hooks

    def fitted(self, model: Any, logs: Any, updates: int | None, begins: bool) -> None:
        """Keras's train function returned: so many updates, None if it is not known.

        `begins` says that the running means began anew with this call.
        """
        self._source = "fit"
        self._mean_of = (0 if begins else self._mean_of) + (updates or 0)
        value = loss_in(logs)
        if updates is not None:
            self.updates += updates
            self._keep(self.updates, value, self._mean_of)
            return
        counter = counter_of(model)
        self.updates += int(getattr(model, "steps_per_execution", 1) or 1)  # until it is read
        if self._counted_from is None:
            self._counted_from = self.updates, counter
        self._keep(counter, value)

    def returned(self, key: tuple[Any, ...], result: Any) -> None:
        """A call that updates the weights returned; `key` names what was called."""
        if key[0] == "function" and not self._counts(key):
            return
        self._source = "train_on_batch" if key[0] == "train_on_batch" else "output"
        self.updates += 1
        self._keep(self.updates, loss_in(result))
        self._early_sum()

    def derived(self, target: Any) -> None:
        """The gradient of `target` was asked for, outside of any step function."""
        if self._target is not None:
            return
        target = plain_loss(target)
        if hasattr(target, "detach"):  # the next step may write over it, as CUDA graphs do
            if len(target.shape) == 0:
                target = target.clone()
            elif target.device.type != "cpu":
                target = target.float().mean()
        elif type(target).__name__ != "EagerTensor":
            return
        if len(target.shape) == 0:
            self._target = target
        elif math.prod(target.shape) <= LONGEST:
            self._vector = target

    def variables(self, sources: Any) -> None:
        """Remember the variables that a tape was asked for, if they are the first."""
        if self._variables is not None:
            return
        found = [leaf for leaf in leaves(sources) if getattr(leaf, "trainable", False)]
        if found and all(hasattr(variable, "assign") for variable in found):
            self.weights(found)

    def weights(self, parameters: list[Any]) -> None:
        """Remember the parameters of an optimizer, if it is the first."""
        if self._variables is None:
            self._variables = [weakref.ref(parameter) for parameter in parameters]

    def applied(self, key: tuple[Any, ...]) -> None:
        """An optimizer was applied, or a variable assigned, outside of any function."""
        value = self._vector if self._target is None else self._target
        counts = self._counts(key)
        if counts or key[0] == "optimizer":  # the loss of another optimizer is not the next one's
            self._target = self._vector = None
        if not counts:
            return
        self._source = "tape"
        self.updates += 1
        self._keep(self.updates, value)
        if key[0] == "optimizer":  # an assignment is seen before the others of its step
            self._early_sum()

    # ------------------------------------------------------------- while paused

    def flush(self) -> None:
        """Write down what was kept since the last time; waits for the device."""
        kept, self._kept = self._kept, []
        with Attempt(self._process, "losses"):
            self._write("loss", [self._read(*loss) for loss in kept])
            if not self._seen and self.updates:
                self._sum()
            sums, self._sums = self._sums, []
            self._write("weights", sums)

    def _keep(self, update: Any, value: Any, mean_of: int = 0) -> None:
        """Keep a reference to the loss of an update, if there is one.

        `mean_of` says of how many updates it is the running mean, 0 if it is none.
        """
        if update is not None and value is not None:
            self._seen = True
            if len(self._kept) < MOST:
                self._kept.append((update, value, mean_of))

    def _counts(self, key: tuple[Any, ...]) -> bool:
        if self._anchor is None or self._others >= OTHERS:
            self._anchor = key
        if key != self._anchor:
            self._others += 1
            return False
        self._others = 0
        return True

    def _read(self, update: Any, value: Any, mean_of: int) -> tuple[int, float, int]:
        if not isinstance(update, int):
            from_update, counter = self._counted_from or (0, 0)
            update = from_update + int(update) - int(counter)
            self.updates = update
        return update, number_of(value), mean_of

    def _write(self, kind: str, found: list[tuple[int, float, int]]) -> None:
        if not found:
            return
        self._process.record.write(
            "losses",
            kind=kind,
            of=self._source,
            u=[update for update, _, _ in found],
            v=[json_number(value) for _, value, _ in found],
            k=[mean_of for _, _, mean_of in found],
        )

    def _early_sum(self) -> None:
        """Sum the weights at updates 1, 2, 4, 8, … of the warm-up, which is not timed."""
        update = self.updates
        if update <= self._warm_up_steps and update & (update - 1) == 0:
            with Attempt(self._process, "sums of weights"):
                self._sum()

    def _sum(self) -> None:
        variables = [variable() for variable in self._variables or ()]
        if not variables or any(variable is None for variable in variables):
            self._variables = None
            return
        with Unseen(self._process):
            self._sums.append((self.updates, absolute_sum(variables), 0))


# The loss in what a step returns, its value, and sums of weights in its place.

LONGEST = 1_000_000
"""Of a larger variable only so many elements are summed."""
DEEPEST, WIDEST = 4, 8
"""In a structure nested deeper than this, and beyond so many members (gradients, a batch's labels),
no loss is looked for: that is done in each step."""


def loss_in(value: Any, depth: int = 0) -> Any:
    """The loss in a structure: what is called so, else the first float scalar; None without one."""
    if _is_scalar(value):
        return value
    if depth == DEEPEST or not isinstance(value, (dict, list, tuple)):
        return None
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (name != "loss", "loss" not in str(name)))
        value = [value[name] for name in names[:WIDEST]]
    found = (loss_in(part, depth + 1) for part in value[:WIDEST])
    return next((loss for loss in found if loss is not None), None)


def _is_scalar(value: Any) -> bool:
    values = getattr(value, "values", None)
    if isinstance(values, tuple) and values:  # one for each replica
        return _is_scalar(values[0])
    if isinstance(value, float):
        return True
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or shape is None or not hasattr(shape, "__len__"):
        return False
    floating = getattr(dtype, "is_floating", getattr(dtype, "kind", "") == "f")
    known = getattr(shape, "rank", 0) is not None
    return bool(floating and known and len(shape) == 0)


def plain_loss(target: Any) -> Any:
    """The first of what a gradient is asked of; of PyTorch's without its graph, and unscaled.

    Nothing is computed, so that it may be asked for while a CUDA graph is captured.
    """
    while isinstance(target, (list, tuple)) and target:
        target = target[0]
    if hasattr(target, "detach"):
        unscaled = getattr(target, "_trainperf_unscaled", None)
        return target.detach() if unscaled is None else unscaled
    return target


def leaves(sources: Any) -> list[Any]:
    """The values in nested dicts, lists and tuples."""
    if isinstance(sources, dict):
        sources = list(sources.values())
    if isinstance(sources, (list, tuple)):
        return [leaf for source in sources for leaf in leaves(source)]
    return [sources]


def counter_of(model: Any) -> Any:
    """How many updates Keras has made, as a tensor that nobody has waited for."""
    import tensorflow as tf

    counter = getattr(model, "_train_counter", None)
    if counter is None:
        counter = getattr(getattr(model, "optimizer", None), "iterations", None)
    return None if counter is None else tf.convert_to_tensor(counter)


def number_of(value: Any) -> float:
    """A loss as a number, the mean of several; waits for the device."""
    values = getattr(value, "values", None)
    if isinstance(values, tuple):
        return sum(map(number_of, values)) / len(values)
    if hasattr(value, "detach"):
        return float(value.double().mean())
    if hasattr(value, "numpy"):
        value = value.numpy()
    if getattr(value, "ndim", 0):
        value = value.astype("float64").mean()
    return float(value)


def json_number(value: float) -> float | str:
    """As JSON has it: nine digits tell all float32 apart; NaN and infinity as text."""
    short = f"{value:.9g}"
    return short if short.lstrip("-") in ("nan", "inf") else float(short)


def absolute_sum(variables: list[Any]) -> float:
    """The sum of the absolute values of variables, of one framework; waits for the device."""
    if hasattr(variables[0], "detach"):
        flat = (variable.detach().reshape(-1)[:LONGEST] for variable in variables)
        return sum(float(values.double().abs().sum()) for values in flat)
    import tensorflow as tf

    flat = (tf.reshape(tf.convert_to_tensor(one), [-1])[:LONGEST] for one in variables)
    return sum(float(tf.reduce_sum(tf.abs(tf.cast(values, tf.float64)))) for values in flat)
