"""Callbacks before and after they work less often."""

from __future__ import annotations

from trainperf.fixes import Example
from trainperf.fixes.tf_step._callback_bodies import COMMENT, EVERY


def untouched(statement: str) -> Example:
    """A callback that does more than observe, and must not change."""
    method = f"def on_train_batch_end(self, batch, logs=None):\n        {statement}"
    return Example(
        before=f"class Own(Callback):\n    ▸{method}◂\n",
        after=f"class Own(Callback):\n    {method}\n",
        data={"edits": [{"every": EVERY}]},
    )


EXAMPLES = [
    Example(
        before="""\
model.fit(x, callbacks=[▸keras.callbacks.ModelCheckpoint("last.keras", save_freq=1)◂])
""",
        after="""\
model.fit(x, callbacks=[keras.callbacks.ModelCheckpoint("last.keras", save_freq="epoch")])
""",
        data={"edits": [{"save_freq": '"epoch"'}]},
    ),
    Example(
        before="""\
board = ▸keras.callbacks.TensorBoard(
    log_dir="logs",
    update_freq="batch",
)◂
log = ▸LossLog()◂
""",
        after="""\
board = keras.callbacks.TensorBoard(
    log_dir="logs",
    update_freq="epoch",
)
log = LossLog()
""",
        data={"edits": [{"update_freq": '"epoch"'}, {}]},
    ),
    # a file name with the batch in it has none at the end of an epoch
    Example(
        before='saver = ▸ModelCheckpoint("{batch:05d}.keras", save_freq=1)◂\n',
        after='saver = ModelCheckpoint("{batch:05d}.keras", save_freq=1)\n',
        data={"edits": [{"save_freq": '"epoch"'}]},
    ),
    # more than observing
    untouched("self.model.stop_training = logs['loss'] < 0.1"),
    untouched("self.model.optimizer.learning_rate.assign(1 / (1 + batch))"),
    untouched("if batch % 50 == 0: self.model.save('last.keras')"),
    Example(
        before="""\
class Saver(keras.callbacks.Callback):
    ▸def on_train_batch_end(self, batch, logs=None):
        \"\"\"Save the weights.\"\"\"
        # with their names
        self.model.save_weights(self.path)◂
""",
        after=f"""\
class Saver(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        \"\"\"Save the weights.\"\"\"
        {COMMENT.format(EVERY)}
        if batch % 100:
            return
        # with their names
        self.model.save_weights(self.path)
""",
        data={"edits": [{"every": EVERY}]},
    ),
    # what keeps count is still done in every batch
    Example(
        before="""\
class Log(keras.callbacks.Callback):
    ▸def on_train_batch_end(self, step, logs):
        self.seen += 1
        self.losses.append(float(logs["loss"]))
        with open(self.path, "a") as file:
            file.write(f"{self.seen} {self.losses[-1]}")◂
""",
        after=f"""\
class Log(keras.callbacks.Callback):
    def on_train_batch_end(self, step, logs):
        self.seen += 1
        self.losses.append(float(logs["loss"]))
        {COMMENT.format(EVERY)}
        if step % 100:
            return
        with open(self.path, "a") as file:
            file.write(f"{{self.seen}} {{self.losses[-1]}}")
""",
        data={"edits": [{"every": EVERY}]},
    ),
]
