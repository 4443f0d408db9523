"""Callbacks before and after they work less often."""

from __future__ import annotations

from rewriting import Example
from trainperf.fixes.tf_step._callback_bodies import COMMENT, EVERY, LAST


def untouched(statement: str) -> Example:
    """A callback that does more than observe, and must not change."""
    method = f"def on_train_batch_end(self, batch, logs=None):\n        {statement}"
    data = {"edits": [{"every": EVERY}]}
    return Example.untouched(f"class Own(Callback):\n    ▸{method}◂\n", data)


def _called(arguments: str) -> Example:
    """One of Keras's that calls what must not change, or is not to be seen."""
    plain = f"LambdaCallback({arguments})"
    data = {"edits": [{"calls": EVERY}]}
    return Example(before=f"own = ▸{plain}◂\n", after=f"own = {plain}\n", data=data)


def _of_last(body: str, changed: bool = True, end: str = "on_epoch_end") -> Example:
    """A method whose work is read when an epoch has ended, or in `end`."""
    head = "class Score(Callback):\n    "
    method = "def on_train_batch_end(self, batch, logs=None):\n        "
    rest = f"\n\n    def {end}(self, epoch, logs=None):\n        print(self.score)\n"
    guard = f'{LAST}\n        if self.params["steps"] and batch + 1 < self.params["steps"]:\n'
    guard += "            return\n        "
    return Example(
        before=f"{head}▸{method}{body}◂{rest}",
        after=f"{head}{method}{guard if changed else ''}{body}{rest}",
        data={"edits": [{"last": True}]},
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
    Example.untouched(
        'saver = ▸ModelCheckpoint("{batch:05d}.keras", save_freq=1)◂\n',
        {"edits": [{"save_freq": '"epoch"'}]},
    ),
    # more than observing
    untouched("self.model.stop_training = logs['loss'] < 0.1"),
    untouched("self.model.optimizer.learning_rate.assign(1 / (1 + batch))"),
    untouched("if batch % 50 == 0: self.model.save('last.keras')"),
    untouched("clip(self.model)"),
    untouched("clip(model)"),
    untouched("update(self.target, self.model.weights)"),
    Example.untouched(
        "def clip(model):\n    for w in model.weights:\n        w.assign(w / 2)\n\n\n"
        "class Own(Callback):\n    ▸def on_batch_end(self, batch, logs):\n"
        "        clip(self.model)◂\n",
        {"edits": [{"every": EVERY}]},
    ),
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
    # what the last batch leaves is all that is read
    _of_last("proba = self.model.predict(self.x)\n        self.score = f1(self.y, proba)"),
    # ... and is not
    _of_last("self.score = max(self.score, f1(self.model.predict(self.x)))", changed=False),
    _of_last("self.score = f1(self.model.predict(self.x), logs)", changed=False),
    _of_last("self.score = f1(self.model.predict(self.x))\n        print(1)", changed=False),
    _of_last("self.score = f1(self.model.predict(shuffled(self.x)))", changed=False),
    _of_last("self.scores.append(f1(self.model.predict(self.x)))", changed=False),
    _of_last("self.score = f1(self.model.predict(self.x))", changed=False, end="on_test_begin"),
    Example(
        before="show = ▸LambdaCallback(on_batch_end=lambda b, logs: print(b, logs['loss']))◂\n",
        after="show = LambdaCallback(on_batch_end=lambda b, logs: "
        "None if b % 100 else print(b, logs['loss']))\n",
        data={"edits": [{"calls": EVERY}]},
    ),
    Example(
        before="""\
def show(batch, logs):
    board.write(batch, logs["loss"])


own = ▸keras.callbacks.LambdaCallback(on_train_batch_end=show, on_epoch_end=other)◂
""",
        after=f"""\
def show(batch, logs):
    {COMMENT.format(EVERY)}
    if batch % 100:
        return
    board.write(batch, logs["loss"])


own = keras.callbacks.LambdaCallback(on_train_batch_end=show, on_epoch_end=other)
""",
        data={"edits": [{"calls": EVERY}]},
    ),
    _called("on_batch_end=lambda b, logs: losses.append(logs['loss'])"),
    _called("on_batch_end=lambda b, logs: model.save('a') if b % 9 == 0 else None"),
    _called("on_batch_end=board.show"),
    _called("on_epoch_end=lambda e, logs: print(e)"),
    _called("**how"),
]
