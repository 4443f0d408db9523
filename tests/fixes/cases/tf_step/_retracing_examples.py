"""Functions that are traced again, before and after; those at the start are left alone."""

from __future__ import annotations

from typing import Any

from rewriting import Example, unmarked

NUMBER = {"site": 1, "argument": 1, "parameter": "weight", "dtype": "float32"}


def changed(
    before: str, changes: dict[str, str], numbers: list[dict[str, Any]] | None = None
) -> Example:
    """An example in which some text is replaced, nothing where there are no changes."""
    after = unmarked(before)
    for old, new in changes.items():
        after = after.replace(old, new)
    return Example(before, after, {"numbers": numbers or []})


def untouched(
    body: str, call: str = "train_step(x, 0.1 * epoch)", numbers: list[Any] | None = None
) -> Example:
    """A function whose tracing no edit may end."""
    before = (
        "import tensorflow as tf\n\n"
        f"▸@tf.function\ndef train_step(x, weight):\n    {body}◂\n\n▸{call}◂\n"
    )
    return changed(before, {}, [NUMBER] if numbers is None else numbers)


EXAMPLES = [
    # what Python decides by the number, it cannot decide by a tensor
    untouched("return weight * update(x) if weight > 0.5 else update(x)"),
    untouched("return update(x[:weight])"),
    # printed in every step now, and once afterwards
    untouched('print("a step")'),
    untouched("return weight * update(x)", call="train_step(*batch)"),
    # a shape that Python reads
    untouched("return update(tf.reshape(x, (x.shape[0], -1)))", numbers=[]),
    changed(
        """\
import tensorflow as tf


▸@tf.function
def train_step(x, weight):
    with tf.GradientTape() as tape:
        loss = weight * loss_of(model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))◂


for x in dataset:
    ▸train_step(x, 0.1 * epoch)◂
""",
        {"(x, 0.1 * epoch)": "(x, tf.constant(0.1 * epoch, tf.float32))"},
        [NUMBER],
    ),
    changed(
        """\
import tensorflow


class Trainer:
    ▸@tensorflow.function
    def train_step(self, x, step, weight=1.0):
        rate = tensorflow.cast(step, tensorflow.float32) / self.steps
        return self.update(x, rate, weight)◂

    def train(self):
        for step, x in enumerate(self.dataset):
            ▸self.train_step(
                x,
                step,  # counted from 0
                weight=step / 100,
            )◂
""",
        {
            "step,  #": "tensorflow.constant(step, tensorflow.int32),  #",
            "weight=step / 100": "weight=tensorflow.constant(step / 100, tensorflow.float32)",
        },
        [{**NUMBER, "parameter": "step", "dtype": "int32"}, {**NUMBER, "argument": "weight"}],
    ),
    # a whole number that is reckoned with as a float
    changed(
        """\
import tensorflow as tf

▸@tf.function
def train_step(x, step):
    update(loss_of(model(x)) * 0.99**step)◂

▸train_step(x, count)◂
""",
        {"(x, count)": "(x, tf.constant(count, tf.float32))"},
        [{**NUMBER, "parameter": "step", "dtype": "int32"}],
    ),
    # a warm-up: what Python bounds, TensorFlow bounds
    changed(
        """\
import tensorflow as tf


▸@tf.function
def train_step(x, step):
    rate = args.rate * min(1.0, (step + 1) / args.warm_up)
    optimizer.learning_rate.assign(max(rate, 1e-5))
    update(loss_of(model(x)))◂


▸train_step(x, count)◂
""",
        {
            "(x, count)": "(x, tf.constant(count, tf.float32))",
            "min(1.0": "tf.minimum(1.0",
            "max(rate": "tf.maximum(rate",
        },
        [{**NUMBER, "parameter": "step", "dtype": "int32"}],
    ),
    untouched("return update(x, range(min(weight, 3)))"),
    untouched("return update(x, max([weight, *others]))"),
    changed(
        """\
import tensorflow as tf


▸@tf.function
def train_step(x, y):
    return update(model(x), y, tf.shape(x)[0], x.shape[-1])◂
""",
        {"@tf.function": "@tf.function(reduce_retracing=True)"},
    ),
    changed(
        """\
import tensorflow as tf


class Trainer:
    @staticmethod
    ▸@tf.function(autograph=False)
    def train_step(x, y):
        return update(x, y)◂
""",
        {"autograph=False": "autograph=False, reduce_retracing=True"},
    ),
]
