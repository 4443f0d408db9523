"""LSTM and GRU cells wrapped in the general `RNN` layer."""

from __future__ import annotations

from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import GPU, SITE, evidence
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding, LayerFacts, ModelFacts

LAYER_OF = {"LSTMCell": "LSTM", "GRUCell": "GRU"}
"""The layer that does the same as `RNN(cell)` and has a cuDNN kernel."""


def _model(cls: str = "RNN", **config: Any) -> ModelFacts:
    return ModelFacts("model", "Sequential", recurrent=(LayerFacts("rnn", cls, config, SITE),))


class LayerForCell(Fix):
    """Use the `LSTM` or `GRU` layer in place of `RNN(cell)`.

    ## Why it is slow
    `RNN(LSTMCell(…))` runs the cell in a loop over the time steps, whatever the device.
    `LSTM(…)` computes the same, and on a GPU in one cuDNN kernel over the whole
    sequence.

    ## What changes
    The same mathematics in another kernel: losses differ by rounding. Weights saved
    from the old layer have other names, so checkpoints do not load by themselves.

    ## When not to
    - Cells of your own, and stacks of different cells, have no layer.
    - Without a GPU there is nothing to gain.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS
    without_edit = "checkpoints of the old layer would not load into the new one"

    silent = [
        evidence(),
        # no cuDNN without a GPU
        evidence(model=_model(cell="LSTMCell")),
        evidence(device=GPU, model=_model("LSTM")),
        evidence(device=GPU, model=_model(cell="StackedRNNCells")),
        evidence(device=GPU, model=_model(cell="SimpleRNNCell")),
        evidence(device=GPU, model=_model(cell="MyCell")),
        # input-bound
        evidence(device=GPU, model=_model(cell="LSTMCell"), resident=0.004, input=0.098),
    ]
    fires = [
        evidence(device=GPU, model=_model(cell="LSTMCell")),
        evidence(device=GPU, model=_model(cell="GRUCell")),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find `RNN` layers on a GPU whose cell has a layer with a cuDNN kernel."""
        if evidence.device.kind != "GPU" or not step_may_matter(evidence):
            return None
        wrapped = [
            layer
            for layer in evidence.model.recurrent
            if layer.cls == "RNN" and layer.config.get("cell") in LAYER_OF
        ]
        if not wrapped:
            return None
        first = wrapped[0]
        cell = first.config["cell"]
        layer_class = LAYER_OF[cell]
        names = ", ".join(
            f"{layer.name}{f' ({at(layer.where)})' if layer.where else ''}" for layer in wrapped
        )
        return self.finding(
            title=f"RNN({cell}) runs step by step where {layer_class} would use cuDNN",
            text=f"{names}: the general RNN layer loops over the time steps and never uses cuDNN.",
            bound=None,
            bound_basis="not measured: the layer would have to be built anew",
            where=tuple(layer.where for layer in wrapped if layer.where),
            advice=f"Build keras.layers.{layer_class} with the arguments of the cell.",
            snippet=f"keras.layers.{layer_class}(units)  # was: RNN({cell}(units))",
        )
