"""What cases of `_frozen_edits` are made of."""

from __future__ import annotations

from rewriting import Example

BUILT = "\n\ndef build():\n    ▸model.compile('adam', 'mse')◂\n"


def _untouched(source: str, arrays: bool = False) -> Example:
    data = {"layers": 2, "batch_size": 32, "arrays": arrays, "shuffled": True}
    return Example.untouched(source, data)


def _fitted(call: str, before: str = "", after: str = "") -> str:
    return f"import keras\n\n\ndef main():\n{before}    ▸{call}◂\n{after}{BUILT}"


EXAMPLES = [
    Example(
        before="""\
import keras
import numpy as np


def main():
    model = build()
    print(▸model.fit(train_ds, epochs=20, validation_data=val_ds)◂)


def build():
    ▸model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss="mse",
    )◂
    return model
""",
        after="""\
import keras
import numpy as np


def main():
    model = build()
    # trainperf: the first 2 layers do not train: what they make of the data is computed once
    frozen = keras.Model(model.inputs, model.layers[2].input)

    def frozen_features(dataset):
        batches = [(frozen.predict_on_batch(x), y) for x, y in dataset]
        return tuple(np.concatenate(part) for part in zip(*batches))

    head = keras.Model(model.layers[2].input, model.outputs)
    head.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
    print(head.fit(*frozen_features(train_ds), epochs=20, \
validation_data=frozen_features(val_ds), batch_size=32, shuffle=False))


def build():
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss="mse",
    )
    return model
""",
        data={"layers": 2, "batch_size": 32, "arrays": False, "shuffled": False},
    ),
    Example(
        before=_fitted("model.fit(x, y, validation_data=(u, v), epochs=9)"),
        after="""\
import keras


def main():
    # trainperf: the first 2 layers do not train: what they make of the data is computed once
    frozen = keras.Model(model.inputs, model.layers[2].input)
    head = keras.Model(model.layers[2].input, model.outputs)
    head.compile('adam', 'mse')
    head.save, head.save_weights = model.save, model.save_weights  # of the whole model
    head.fit(frozen.predict(x), y, validation_data=(frozen.predict(u), v), epochs=9)


def build():
    model.compile('adam', 'mse')
""",
        data={"layers": 2, "batch_size": 32, "arrays": True, "shuffled": True, "saved": True},
    ),
    # its names are taken
    Example(
        before=_fitted("model.fit(x, y)", before="    head = frozen = 3\n"),
        after="""\
import keras


def main():
    head = frozen = 3
    # trainperf: the first 2 layers do not train: what they make of the data is computed once
    frozen_part = keras.Model(model.inputs, model.layers[2].input)
    trained_part = keras.Model(model.layers[2].input, model.outputs)
    trained_part.compile('adam', 'mse')
    trained_part.fit(frozen_part.predict(x), y)


def build():
    model.compile('adam', 'mse')
""",
        data={"layers": 2, "batch_size": 32, "arrays": True, "shuffled": True},
    ),
    # what would use the model that is trained, or more of the data than it gives
    _untouched(_fitted("model.fit(ds)", after="    plot(model.history)\n")),
    _untouched(_fitted("model.fit(ds)", after="    print(model.optimizer.learning_rate)\n")),
    _untouched(_fitted("model.fit(ds, steps_per_epoch=9)")),
    _untouched(_fitted("model.fit(x=ds)")),
    _untouched(_fitted("model.fit(ds, **how)")),
    _untouched(_fitted("model.fit(x, y, validation_data=held)"), arrays=True),
    _untouched(_fitted("model.fit(x, y, validation_data=(u, v, w))"), arrays=True),
    _untouched("import keras\n\nfor each in folds:\n    ▸model.fit(each)◂\n" + BUILT),
    # compiled with what only another function knows
    _untouched(_fitted("model.fit(ds)").replace("'adam'", "optimizer")),
]
