"""Eager steps before and after; those at the start are left alone."""

from __future__ import annotations

from rewriting import Example

INLINE = {"inline": True}


def _left(*lines: str, behind: str = "", loop: str = "for x, y in dataset:") -> Example:
    """A loop whose step may not be moved: `lines` stand behind its tape."""
    body = "".join(f"    {line}\n" for line in lines)
    before = (
        f"import tensorflow as tf\n\nlosses = []\n{loop}\n"
        "    with ▸tf.GradientTape()◂ as tape:\n"
        "        loss = loss_of(model(x), y)\n"
        f"{body}{behind}"
    )
    return Example.untouched(before, INLINE)


GRADIENTS = "gradients = tape.gradient(loss, model.trainable_variables)"
APPLY = "optimizer.apply(gradients, model.trainable_variables)"

EXAMPLES = [
    # what is done in Python for each step would be done once
    _left(GRADIENTS, "losses.append(float(loss))", APPLY),
    _left(GRADIENTS, "print(loss)", APPLY),
    _left(GRADIENTS, "gradients = [g.numpy() for g in gradients]", APPLY),
    _left("if loss < best:", f"    {GRADIENTS}", f"    {APPLY}"),
    _left(GRADIENTS, "if tf.reduce_any(tf.math.is_nan(loss)):", "    break", APPLY),
    # the number of the step is a Python number
    _left(
        GRADIENTS,
        "gradients = [g / (step + 1) for g in gradients]",
        APPLY,
        loop="for step, (x, y) in enumerate(dataset):",
    ),
    # kept from step to step
    _left("total += loss", GRADIENTS, APPLY),
    # changed in the loop, and read in the step
    _left("loss = loss * args.weight", GRADIENTS, APPLY, "args.weight = 0.9 * args.weight"),
    # where the weights change is not seen
    _left(GRADIENTS, "update(gradients)"),
    # the tape is used behind the step
    _left(GRADIENTS, APPLY, "more = tape.gradient(loss, x)"),
    Example(
        before="""\
import tensorflow as tf


▸def train_step(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(model(x), y)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss◂
""",
        after="""\
import tensorflow as tf


@tf.function
def train_step(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(model(x), y)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
""",
    ),
    # a loop of the module, its metrics, and what is printed now and then
    Example(
        before="""\
import keras
import tensorflow as tf

model = build()
accuracy = keras.metrics.SparseCategoricalAccuracy()
mean = keras.metrics.Mean()

epochs = 2
for epoch in range(epochs):
    for step, (x, y) in enumerate(dataset):
        # the forward pass
        with ▸tf.GradientTape()◂ as tape:
            logits = model(x, training=True)  # of this batch

            loss_value = loss_fn(y, logits)
        grads = tape.gradient(loss_value, model.trainable_weights)
        optimizer.apply(grads, model.trainable_weights)

        # Update the metrics.
        accuracy.update_state(y, logits)
        mean(loss_value)

        if step % 100 == 0:
            print(step, float(loss_value))
    print(float(accuracy.result()))
""",
        after="""\
import keras
import tensorflow as tf

model = build()
accuracy = keras.metrics.SparseCategoricalAccuracy()
mean = keras.metrics.Mean()

epochs = 2


@tf.function
def train_step(x, y):
    # the forward pass
    with tf.GradientTape() as tape:
        logits = model(x, training=True)  # of this batch

        loss_value = loss_fn(y, logits)
    grads = tape.gradient(loss_value, model.trainable_weights)
    optimizer.apply(grads, model.trainable_weights)

    # Update the metrics.
    accuracy.update_state(y, logits)
    mean(loss_value)
    return loss_value


for epoch in range(epochs):
    for step, (x, y) in enumerate(dataset):
        loss_value = train_step(x, y)

        if step % 100 == 0:
            print(step, float(loss_value))
    print(float(accuracy.result()))
""",
        data=INLINE,
    ),
    # a loop of a method: what is its own goes in, and the function stands outside the class
    Example(
        before="""\
import tensorflow as tf


class Trainer:
    def train(self, model, dataset):
        optimizer = tf.keras.optimizers.Adam()
        for images, labels in dataset:
            with ▸tf.GradientTape()◂ as tape:
                predictions = model(images)
                loss = self.loss(labels, predictions)
            variables = model.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(
                (g, v) for g, v in zip(gradients, variables)
            )
            self.log(loss, predictions)
""",
        after="""\
import tensorflow as tf


@tf.function
def train_step(model, images, self, labels, optimizer):
    with tf.GradientTape() as tape:
        predictions = model(images)
        loss = self.loss(labels, predictions)
    variables = model.trainable_variables
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(
        (g, v) for g, v in zip(gradients, variables)
    )
    return loss, predictions


class Trainer:
    def train(self, model, dataset):
        optimizer = tf.keras.optimizers.Adam()
        for images, labels in dataset:
            loss, predictions = train_step(model, images, self, labels, optimizer)
            self.log(loss, predictions)
""",
        data=INLINE,
    ),
    # the site is that of the whole `with`, as some versions of Python tell it
    Example(
        before="""\
import tensorflow as tf

for x, y in dataset:
    ▸with tf.GradientTape() as tape:
        logits = model(x)
        loss = loss_of(logits, y)◂
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
""",
        after="""\
import tensorflow as tf


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x)
        loss = loss_of(logits, y)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


for x, y in dataset:
    loss = train_step(x, y)
""",
        data=INLINE,
    ),
]
