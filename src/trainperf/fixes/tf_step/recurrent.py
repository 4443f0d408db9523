"""Recurrent layers that are kept from cuDNN, or unrolled: advice, as the layers must be rebuilt."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Unpriced
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import ms
from trainperf.model import Equivalence, Evidence, LayerFacts

NOT_BUILT = Unpriced("not measured: the layer would have to be built anew")

CELLS = ("LSTMCell", "GRUCell")
"""Cells of the layers that have a cuDNN kernel."""

WANTED = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "reset_after": True,
    "recurrent_dropout": 0.0,
    "use_cudnn": "auto",
}
"""The arguments of LSTM and GRU with which cuDNN is used."""


def _on_gpu(evidence: Evidence) -> bool:
    """Whether there is a cuDNN, and a step that it could make shorter."""
    return evidence.device.kind == "GPU" and step_may_matter(evidence)


class RnnCudnn(Fix):
    """Build LSTM and GRU layers so that they can use cuDNN.

    Why slow: On a GPU, an LSTM or GRU with the default arguments runs as one cuDNN kernel over the
    whole sequence. With others, and as `RNN(LSTMCell(…))`, it is a loop over the time steps: often
    many times slower.
    Changes: cuDNN needs `activation="tanh"`, `recurrent_activation="sigmoid"`, `use_bias=True`,
    `recurrent_dropout=0`, `unroll=False`, and for GRU `reset_after=True`. Except for `unroll` and
    `RNN`, this changes the model: train it anew and compare. Checkpoints have other names.
    When not:
    - Masked sequences must be padded on the right, or cuDNN cannot be used at all.
    - A layer that uses cuDNN turns XLA off for the whole model. Where XLA is fast,
      `use_cudnn=False` can be right: measure both.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = "the arguments that keep cuDNN away are another model: its weights would not fit"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the recurrent layers on a GPU that exclude cuDNN, with why."""
        excluded = [(layer, why) for layer in evidence.model.recurrent if (why := _why_not(layer))]
        if not excluded or not _on_gpu(evidence):
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


def _why_not(layer: LayerFacts) -> list[str]:
    """What excludes cuDNN for an LSTM or GRU (Keras 3.15); `unroll` is told by itself."""
    if layer.cls == "RNN":
        cell = str(layer.config.get("cell"))
        return [f"{cell} in an RNN"] if cell in CELLS else []
    if f"{layer.cls}Cell" not in CELLS:
        return []
    return [
        f"{name}={layer.config[name]!r}"
        for name, value in WANTED.items()
        if layer.config.get(name, value) not in (value, True)
    ]


LONG_TRACING_S = 10.0
"""Tracing that takes longer than this is felt at every start of the script."""

RUN_SHARE = 0.20
"""Share of the whole planned run that tracing must take before it outweighs the steps.

Without a GPU an unrolled LSTM runs faster, step for step, than one in a loop: about
1.35 times at 20 to 100 time steps, measured on two CPU cores with Keras 3.15.
"""


class RnnUnroll(Fix):
    """Take `unroll=True` out of recurrent layers.

    Why slow: An unrolled layer puts one copy of its cell into the graph for each time step:
    minutes to trace and compile, and much memory. On a GPU it keeps an LSTM or GRU from cuDNN.
    Changes: The same cell runs in a loop, or in cuDNN on a GPU. The numbers are the same, to
    rounding.
    When not: Without a GPU, and for sequences of a few dozen steps at most, the unrolled layer
    runs faster once it is traced. Long runs are then better off with it.
    """

    category = "model"
    without_edit = "without a GPU the steps themselves may get slower"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find unrolled layers that miss cuDNN for it, or make the start too long."""
        layers = [layer for layer in evidence.model.recurrent if layer.config.get("unroll")]
        traced = (evidence.startup.tracing_s if evidence.startup else None) or 0.0
        long, gpu = traced >= LONG_TRACING_S, _on_gpu(evidence)
        if not layers or not (gpu or (long and _outweighs(evidence, traced))):
            return None
        text = f"unroll=True on {', '.join(f'{layer.cls} {layer.name}' for layer in layers)}."
        text += f" Tracing the step took {ms(traced)}." if long else ""
        if not gpu:
            text += " Without a GPU the steps themselves may get slower by up to a third."
        return Cause(
            title="Recurrent layers are unrolled into one copy per time step",
            text=text,
            saves=NOT_BUILT,
            where=tuple(layer.where for layer in layers if layer.where),
            advice="Leave unroll out.",
            snippet=f"keras.layers.{layers[0].cls}(units)",
            equivalence=Equivalence.NUMERICS if gpu else Equivalence.EXACT,
        )


def _outweighs(evidence: Evidence, tracing_s: float) -> bool:
    """Whether tracing is long against the whole planned run: worth slower steps."""
    loop = evidence.loop
    if loop.epochs is None or loop.epoch_steps is None:
        return False
    steps_s = loop.epochs * loop.epoch_steps * evidence.times.real
    return tracing_s >= RUN_SHARE * (tracing_s + steps_s)
