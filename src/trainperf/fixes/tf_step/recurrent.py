"""Recurrent layers that are kept from cuDNN, or unrolled: advice, as the layers must be rebuilt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Unpriced
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at, ms
from trainperf.model import Equivalence, Evidence, LayerFacts, Site

NOT_BUILT = Unpriced("not measured: the layer would have to be built anew")

LAYER_OF = {"LSTMCell": "LSTM", "GRUCell": "GRU"}
"""The layer that does the same as `RNN(cell)` and has a cuDNN kernel."""

CUDNN_LAYERS = tuple(LAYER_OF.values())

UNROLL = "unroll=True"


def _on_gpu(evidence: Evidence) -> bool:
    """Whether there is a cuDNN, and a step that it could make shorter."""
    return evidence.device.kind == "GPU" and step_may_matter(evidence)


def _named(layer: LayerFacts) -> str:
    return f"{layer.name}{f' ({at(layer.where)})' if layer.where else ''}"


def _places(layers: Iterable[LayerFacts]) -> tuple[Site, ...]:
    return tuple(layer.where for layer in layers if layer.where)


class RnnCellWrapped(Fix):
    """Use the `LSTM` or `GRU` layer in place of `RNN(cell)`.

    ## Why it is slow
    `RNN(LSTMCell(…))` runs the cell in a loop over the time steps, whatever the device.
    `LSTM(…)` computes the same, and on a GPU in one cuDNN kernel over the whole sequence.

    ## What changes
    The same mathematics in another kernel: losses differ by rounding. Weights saved from the
    old layer have other names, so checkpoints do not load by themselves.

    ## When not to
    - Cells of your own, and stacks of different cells, have no layer.
    - Without a GPU there is nothing to gain.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS
    without_edit = "checkpoints of the old layer would not load into the new one"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find `RNN` layers on a GPU whose cell has a layer with a cuDNN kernel."""
        wrapped = [
            layer
            for layer in evidence.model.recurrent
            if layer.cls == "RNN" and layer.config.get("cell") in LAYER_OF
        ]
        if not wrapped or not _on_gpu(evidence):
            return None
        cell = wrapped[0].config["cell"]
        names = ", ".join(map(_named, wrapped))
        return Cause(
            title=f"RNN({cell}) runs step by step where {LAYER_OF[cell]} would use cuDNN",
            text=f"{names}: the general RNN layer loops over the time steps and never uses cuDNN.",
            saves=NOT_BUILT,
            where=_places(wrapped),
            advice=f"Build keras.layers.{LAYER_OF[cell]} with the arguments of the cell.",
            snippet=f"keras.layers.{LAYER_OF[cell]}(units)  # was: RNN({cell}(units))",
        )


class RnnCudnn(Fix):
    """Build LSTM and GRU layers so that they can use cuDNN.

    ## Why it is slow
    On a GPU, an LSTM or GRU with the default arguments runs as one cuDNN kernel over the whole
    sequence, with others as a loop over the time steps: often many times slower.

    ## What changes
    cuDNN needs `activation="tanh"`, `recurrent_activation="sigmoid"`, `use_bias=True`,
    `recurrent_dropout=0`, `unroll=False`, and for GRU `reset_after=True`. Except for `unroll`,
    this changes the model: train it anew and compare.

    ## When not to
    - Masked sequences must be padded on the right, or cuDNN cannot be used at all.
    - A layer that uses cuDNN turns XLA off for the whole model. Where XLA is fast,
      `use_cudnn=False` can be right: measure both.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = "the arguments that keep cuDNN away are another model: its weights would not fit"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the recurrent layers on a GPU whose arguments exclude cuDNN, with why."""
        excluded = [(layer, _why_not(layer)) for layer in evidence.model.recurrent]
        excluded = [(layer, why) for layer, why in excluded if why and why != [UNROLL]]
        if not excluded or not _on_gpu(evidence):
            return None
        first, reasons = excluded[0]
        why = "; ".join(f"{_named(layer)}: {', '.join(given)}" for layer, given in excluded)
        return Cause(
            title=f"{first.cls} runs step by step instead of in cuDNN",
            text=f"What excludes cuDNN: {why}.",
            saves=NOT_BUILT,
            where=_places(layer for layer, _ in excluded),
            advice="Use the default for these arguments, or accept the slower kernel knowingly.",
            snippet=f"keras.layers.{first.cls}(units)  # without {', '.join(reasons)}",
        )


def _why_not(layer: LayerFacts) -> list[str]:
    """Return the arguments that exclude cuDNN for an LSTM or GRU, as they were given.

    The conditions are those of Keras 3.15's `cudnn_ok` and of
    `_do_gru_arguments_support_cudnn`. An argument that was not recorded is not judged.
    """
    if layer.cls not in CUDNN_LAYERS:
        return []
    config = layer.config
    wanted: dict[str, Any] = {"activation": "tanh", "recurrent_activation": "sigmoid"}
    wanted |= {"use_bias": True} | ({"reset_after": True} if layer.cls == "GRU" else {})
    reasons = [
        f"{name}={config[name]!r}"
        for name, value in wanted.items()
        if name in config and config[name] != value
    ]
    if config.get("recurrent_dropout"):
        reasons.append(f"recurrent_dropout={config['recurrent_dropout']}")
    if config.get("unroll"):
        reasons.append(UNROLL)
    if config.get("use_cudnn") is False:
        reasons.append("use_cudnn=False")
    return reasons


LONG_TRACING_S = 10.0
"""Tracing that takes longer than this is felt at every start of the script."""

RUN_SHARE = 0.20
"""Share of the whole planned run that tracing must take before it outweighs the steps.

Without a GPU an unrolled LSTM runs faster, step for step, than one in a loop: about
1.35 times at 20 to 100 time steps, measured on two CPU cores with Keras 3.15.
"""


class RnnUnroll(Fix):
    """Take `unroll=True` out of recurrent layers.

    ## Why it is slow
    An unrolled layer puts one copy of its cell into the graph for each time step: minutes to
    trace and compile, and much memory. On a GPU it keeps an LSTM or GRU from cuDNN.

    ## What changes
    The same cell runs in a loop, or in cuDNN on a GPU. The numbers are the same, to rounding.

    ## When not to
    - Without a GPU, and for sequences of a few dozen steps at most, the unrolled layer runs
      faster once it is traced. Long runs are then better off with it.
    """

    category = "model"
    without_edit = "without a GPU the steps themselves may get slower"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find unrolled layers that miss cuDNN for it, or make the start too long."""
        layers = [layer for layer in evidence.model.recurrent if layer.config.get("unroll")]
        kept_off = _on_gpu(evidence) and any(_why_not(layer) == [UNROLL] for layer in layers)
        traced = evidence.startup.tracing_s if evidence.startup else None
        long = traced is not None and traced >= LONG_TRACING_S
        if not layers or not (kept_off or (long and _outweighs(evidence, traced or 0.0))):
            return None
        text = f"unroll=True on {', '.join(f'{layer.cls} {_named(layer)}' for layer in layers)}."
        if kept_off:
            text += f" It is all that keeps an {' or '.join(CUDNN_LAYERS)} layer from using cuDNN."
        if long:
            text += f" Tracing the step took {ms(traced or 0.0)}."
            if evidence.device.kind != "GPU":
                text += " Without a GPU the steps themselves may get slower by up to a third."
        return Cause(
            title="Recurrent layers are unrolled into one copy per time step",
            text=text,
            saves=NOT_BUILT,
            where=_places(layers),
            advice="Leave unroll out.",
            snippet=f"keras.layers.{layers[0].cls}(units)",
            equivalence=Equivalence.NUMERICS if kept_off else Equivalence.EXACT,
        )


def _outweighs(evidence: Evidence, tracing_s: float) -> bool:
    """Whether long tracing is worth slower steps: on a CPU, long against the whole planned run."""
    loop = evidence.loop
    if evidence.device.kind == "GPU":
        return True
    if loop.epochs is None or loop.epoch_steps is None:
        return False
    steps_s = loop.epochs * loop.epoch_steps * evidence.times.real
    return tracing_s >= RUN_SHARE * (tracing_s + steps_s)
