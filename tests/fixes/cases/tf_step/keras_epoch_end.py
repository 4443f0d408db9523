"""The cases of `keras_epoch_end`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence
from rewriting import Example
from trainperf.model import (
    BetweenEpochs,
    Loop,
    Outside,
    Spent,
    StartUp,
)

SHORT_EPOCHS = Loop(
    "fit", where=SITE, batch_size=32, epochs=50, epoch_steps=100, input_kind="tf.data"
)


def _untouched(call: str) -> Example:
    return Example.untouched(f"▸{call}◂\n")


EXAMPLES = [
    Example(
        before="""\
import tensorflow as tf

history = ▸model.fit(train_ds, epochs=50, validation_data=val_ds)◂
""",
        after="""\
import tensorflow as tf

history = model.fit(train_ds.repeat().prefetch(tf.data.AUTOTUNE), epochs=50, \
validation_data=val_ds, steps_per_epoch=len(train_ds))
""",
    ),
    Example(
        before="""\
import tensorflow


class Trainer:
    def train(self):
        ▸self.model.fit(
            x=self.data,
            epochs=self.epochs,
        )◂
""",
        after="""\
import tensorflow


class Trainer:
    def train(self):
        self.model.fit(
            x=self.data.repeat().prefetch(tensorflow.data.AUTOTUNE),
            epochs=self.epochs,
            steps_per_epoch=len(self.data),
        )
""",
    ),
    # nobody knows how many batches it has
    Example.untouched("▸model.fit(ds)◂\n", {"uncounted": True}),
    # it has its own length of an epoch, or might
    _untouched("model.fit(ds, epochs=3, steps_per_epoch=100)"),
    _untouched("model.fit(ds, **how)"),
    _untouched("model.fit(*given)"),
    # a dataset made in place must not be made twice
    Example(
        before="import tensorflow as tf\n\n▸model.fit(load().batch(32), epochs=3)◂\n",
        after="import tensorflow as tf\n\ntrain_data = load().batch(32)\n"
        "model.fit(train_data.repeat().prefetch(tf.data.AUTOTUNE), epochs=3, "
        "steps_per_epoch=len(train_data))\n",
    ),
    _untouched("train(model, ds)"),
]

silent = [
    evidence(),
    # an ordinary validation set, and a large one, which is another matter
    evidence(between_epochs=BetweenEpochs(11.0, 1, 1000, validation_s=10.5)),
    evidence(loop=SHORT_EPOCHS, between_epochs=BetweenEpochs(12.0, 2, 100, validation_s=11.8)),
    # short against the epoch
    evidence(between_epochs=BetweenEpochs(4.0, 1, 1000, callbacks_s=4.0)),
    # a toy: a long share, but of nothing
    evidence(
        real=0.005,
        resident=0.0049,
        input=0.001,
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(0.3, 1, 100, restart_s=0.3),
    ),
    # the first validation, most of which is tracing
    evidence(
        loop=SHORT_EPOCHS,
        startup=StartUp(9.0, tracing_s=4.0),
        between_epochs=BetweenEpochs(6.0, 1, 100, validation_s=5.5),
    ),
    # what a callback of the user's predicts: that is told by its own line
    evidence(
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(20.0, 2, 100),
        outside_=Outside("epoch", 30.0, 100, 10.0, (Spent("prediction", 19.8, 0.66),)),
    ),
    # it is not known how long an epoch is
    evidence(loop=Loop("fit", where=SITE), between_epochs=BetweenEpochs(40.0, 1, restart_s=40.0)),
    # only one epoch: nothing comes between
    evidence(
        loop=Loop("fit", where=SITE, epochs=1, epoch_steps=100),
        between_epochs=BetweenEpochs(40.0, 1, 100, restart_s=40.0),
    ),
]

fires = [
    evidence(loop=SHORT_EPOCHS, between_epochs=BetweenEpochs(8.0, 1, 100, restart_s=7.5)),
    evidence(
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(
            20.0, 2, 100, validation_s=12.0, callbacks_s=5.0, restart_s=3.0
        ),
    ),
    # short epochs of which most is the opening of the next: a strategy's iterators
    evidence(
        real=0.0034,
        resident=0.0016,
        input=0.002,
        loop=Loop("iterator", where=SITE, batch_size=128),
        between_epochs=BetweenEpochs(0.388, 11, 16, restart_s=0.388),
    ),
    # nothing was told apart
    evidence(loop=SHORT_EPOCHS, between_epochs=BetweenEpochs(8.0, 2, 100)),
]

tries_not = [
    evidence(),
    # next to nothing of a long epoch; nearly all of it validation
    evidence(between_epochs=BetweenEpochs(4.0, 2, 1000)),
    evidence(loop=SHORT_EPOCHS, between_epochs=BetweenEpochs(12.0, 2, 100, validation_s=11.8)),
    # arrays, whose number of batches in an epoch Keras keeps itself
    evidence(
        loop=replace(SHORT_EPOCHS, input_kind="numpy"),
        real=0.005,
        between_epochs=BetweenEpochs(0.3, 2, 100, restart_s=0.3),
    ),
    # it would be rounded up
    evidence(
        loop=replace(SHORT_EPOCHS, steps_per_execution=16),
        real=0.005,
        between_epochs=BetweenEpochs(0.3, 2, 100, restart_s=0.3),
    ),
]

tries = [
    # a toy, of which nobody would be told
    evidence(
        real=0.005,
        resident=0.0049,
        input=0.001,
        loop=SHORT_EPOCHS,
        between_epochs=BetweenEpochs(0.3, 2, 100, restart_s=0.3),
    ),
]

examples = EXAMPLES
