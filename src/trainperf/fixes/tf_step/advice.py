"""Weights that go through NumPy, layers kept from cuDNN: what the user has to write anew."""

from __future__ import annotations

import math
import re

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at, ms
from trainperf.model import (
    CallbackCost,
    Equivalence,
    Evidence,
    LayerFacts,
    Line,
    Site,
    is_taken,
    known,
)

LEAST = 0.05
"""Share of a step, as the samples surely tell it, from which copies of the weights are named."""

MOST = 0.5
"""Share of a callback's lines from which copying the weights is what it does."""

COPIES = re.compile(r"\b[gs]et_weights\b")
"""Methods of models and layers that copy weights between the framework and NumPy."""

KEEPS = re.compile(
    r"\bset_weights\b|\w \*= |\.\w+ = [\w.]+\.get_weights\(\)|\*.+\+.+\*|\(1(\.0?)? - "
    r"|(?i:averag|polyak)|EMA|SWA|(\b|_)(ema|swa)(\b|_)"
)
"""What tells an average or a copy of the weights from weights that are only looked at. Samples of
the stack do not say what a copy is for; without such a word `keras_callback_per_batch` tells it."""


class KerasWeightCopies(Fix):
    """Average the weights in variables: by the optimizer, or in a compiled function.

    Why slow: `get_weights()` copies all weights to NumPy, `set_weights()` copies them back one by
    one, and NumPy makes new arrays of their size for each product and sum of a blend. A callback
    does that between two steps, or a function of the loop, and the model waits for it.
    Changes: `use_ema=True` has the optimizer keep the average of the trained weights in its own
    update; `SwapEMAWeights` puts it in their place where the model is evaluated, `fit` at its end.
    A compiled blend writes into variables of its own, or of a second model. Averages differ by
    rounding; statistics of `BatchNormalization` are not trained: assign them as they are.
    When not:
    - Weights that are only logged: read them every 100 batches.
    - An average that is wanted only now and then can be taken of the weights of each epoch.
    - On a GPU, part of what is measured may be waiting for the step to end, which stays.
    """

    framework = "keras"
    equivalence = Equivalence.NUMERICS
    without_edit = "code that reads the average would have to be changed with it"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the callback, or function of the loop, that takes most to copy the weights."""
        found = copying(evidence)
        if not found:
            return None
        callback, lines = max(found, key=lambda pair: _seconds(pair[1]))
        seconds, step = _seconds(lines), evidence.lines
        name = callback.name if callback else f"`{lines[0].where.function}`"
        numpy_s = sum(line.of("python") for line in lines)
        numpy = f", {ms(numpy_s)} of that in Python and NumPy" if numpy_s else ""
        optimizer = "Have the optimizer keep the average, or b" if callback else "B"
        gpu, compiled = evidence.device.kind == "GPU", not evidence.framework.on_other_backend
        waits = " Some of that may be waiting for the GPU to end the step." if gpu else ""
        return Cause(
            title=f"{name} ({at(lines[0].where)}) copies the weights through NumPy in every batch",
            text=f"Of each step of {ms(step.seconds)}, {name} takes {ms(seconds)} to copy "
            f"weights out of their variables, blend them and copy them back{numpy} "
            f"({sum(line.samples for line in lines):,} of {step.samples:,} samples).{waits}",
            saves=Saving("what that takes", callback.batch_s if callback else seconds),
            where=tuple(line.where for line in lines),
            advice=f"{optimizer}lend variables in a `tf.function`.",
            snippet=(_OPTIMIZER * bool(callback) + _COMPILED * compiled).strip(),
        )


_OPTIMIZER = """\
optimizer = keras.optimizers.Adam(learning_rate, use_ema=True, ema_momentum=0.99)
model.fit(data, callbacks=[keras.callbacks.SwapEMAWeights()])  # Keras 3: evaluates the average"""

_COMPILED = """

@tf.function  # by hand: `averages` are variables, or those of a second model
def blend():
    for a, v in zip(averages, model.trainable_variables):
        a.assign(decay * a + (1 - decay) * v)"""


def copying(evidence: Evidence) -> list[tuple[CallbackCost | None, tuple[Line, ...]]]:
    """What keeps copies of the weights, and does little else; with the lines that do.

    Callbacks, and functions of the user's beside them (None).
    """
    if not is_taken(evidence.lines_):
        return []
    lines, found = evidence.lines, []
    made: list[tuple[CallbackCost | None, list[Line]]] = [
        (callback, [line for line in lines.lines if _runs(line, callback, evidence)])
        for callback in evidence.callbacks
    ]
    of_callbacks = [line for _, own in made for line in own]
    if not evidence.framework.on_other_backend:
        groups = (group for group in lines.functions(evidence.loop.where) if not group.alone)
        made += [
            (None, [line for line in group.lines if line not in of_callbacks]) for group in groups
        ]
    for callback, own in made:
        kept = tuple(line for line in own if _copies(line) or _computes(line))
        share = _seconds(kept) / lines.seconds if lines.seconds else 0.0
        told = [f"{line.where.function} {line.text}" for line in kept]
        told += [callback.name] if callback else []
        if (
            any(map(_copies, kept))
            and any(map(KEEPS.search, told))
            and share - lines.half_width(share) >= LEAST
            and _seconds(kept) >= MOST * _seconds(own)
        ):
            found.append((callback, kept))
    return found


def _copies(line: Line) -> bool:
    return bool(COPIES.search(f"{line.text} {line.call}"))


def _computes(line: Line) -> bool:
    """Whether it is the interpreter and NumPy's arithmetic that take a line's time, and no call."""
    return line.kind == "python" or (line.kind == "library" and not line.call)


def _runs(line: Line, callback: CallbackCost, evidence: Evidence) -> bool:
    """Whether a method of the callback's is where a line stands, or among what calls it."""
    heads = [(head, cost) for cost in evidence.callbacks for head in _heads(cost)]

    def within(place: Site) -> bool:
        above = [
            (head.line, cost)
            for head, cost in heads
            if head.file == place.file
            and head.function == place.function.rpartition(".")[2]
            and head.line <= place.line
        ]
        return bool(above) and max(above, key=lambda pair: pair[0])[1] is callback

    return any(map(within, (line.where, *line.callers)))


def _heads(callback: CallbackCost) -> list[Site]:
    return [*callback.methods.values(), *callback.functions.values()]


def _seconds(lines: tuple[Line, ...] | list[Line]) -> float:
    return sum(line.seconds for line in lines)


CELLS = ("LSTMCell", "GRUCell")
"""Cells of the layers that have a cuDNN kernel."""

WANTED: dict[str, tuple[object, ...]] = {
    "activation": ("tanh",),
    "recurrent_activation": ("sigmoid",),
    "use_bias": (True,),
    "reset_after": (True,),
    "recurrent_dropout": (0.0,),
    "use_cudnn": ("auto", True),
    "unroll": (False,),
}
"""The arguments of LSTM and GRU with which cuDNN is used."""

LONG_TRACING_S, SHARE_TRACING = 10.0, 0.25
"""Tracing that is told of: so long, and against all steps, which are slower without `unroll`.

About 1.35 times at 20 to 100 time steps, measured on two CPU cores with Keras 3.15.
"""


NOT_BUILT = Unpriced("not measured: the layer would have to be built anew")


class RnnCudnn(Fix):
    """Build LSTM and GRU layers so that they can use cuDNN.

    Why slow: On a GPU, an LSTM or GRU with the default arguments runs as one cuDNN kernel over the
    whole sequence. With others, and as `RNN(LSTMCell(…))`, it is a loop over the time steps: often
    many times slower. Unrolled, its copies for all time steps take long to trace.
    Changes: cuDNN needs `activation="tanh"`, `recurrent_activation="sigmoid"`, `use_bias=True`,
    `recurrent_dropout=0`, `unroll=False`, and for GRU `reset_after=True`. Except for `unroll` and
    `RNN`, this changes the model: train it anew and compare. Checkpoints have other names.
    When not:
    - Masked sequences must be padded on the right, or cuDNN cannot be used at all.
    - A layer that uses cuDNN turns XLA off for the whole model. Where XLA is fast,
      `use_cudnn=False` can be right: measure both.
    - Without a GPU an unrolled layer is faster once it is traced: long trainings keep it.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = "but for `unroll` the arguments make another model: its weights would not fit"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the recurrent layers on a GPU that exclude cuDNN, else those long in tracing."""
        excluded = [(layer, why) for layer in evidence.model.recurrent if (why := _why_not(layer))]
        if evidence.device.kind != "GPU":
            return _unrolled(evidence)
        if not excluded or not step_may_matter(evidence):
            return None
        reasons = "; ".join(f"{layer.name}: {', '.join(why)}" for layer, why in excluded)
        return Cause(
            title="Recurrent layers run step by step instead of in cuDNN",
            text=f"What excludes cuDNN: {reasons}.",
            saves=NOT_BUILT,
            where=tuple(layer.where for layer, _ in excluded if layer.where),
            advice="Use LSTM or GRU with the default for these arguments, or accept the slower "
            "kernel knowingly.",
        )


def _unrolled(evidence: Evidence) -> Cause | None:
    layers = [layer for layer in evidence.model.recurrent if layer.config.get("unroll")]
    startup, length = evidence.startup, known(evidence.length_)
    traced = (startup.tracing_s if startup else None) or 0.0
    steps = length.steps * evidence.times.real if length else math.inf
    if not layers or traced < max(LONG_TRACING_S, SHARE_TRACING * steps):
        return None
    return Cause(
        title="Recurrent layers are unrolled into one copy per time step",
        text=f"Tracing the step took {ms(traced)}; all steps of the training take {ms(steps)}.",
        saves=NOT_BUILT,
        where=tuple(layer.where for layer in layers if layer.where),
        advice="Leave `unroll` out, though the steps themselves may get slower by up to a third.",
    )


def _why_not(layer: LayerFacts) -> list[str]:
    """What excludes cuDNN for an LSTM or GRU (Keras 3.15)."""
    if layer.cls == "RNN":
        cell = str(layer.config.get("cell"))
        return [f"{cell} in an RNN"] if cell in CELLS else []
    if f"{layer.cls}Cell" not in CELLS:
        return []
    return [
        f"{name}={layer.config[name]!r}"
        for name, values in WANTED.items()
        if name in layer.config and layer.config[name] not in values
    ]
