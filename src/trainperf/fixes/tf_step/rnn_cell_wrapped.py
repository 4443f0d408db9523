"""LSTM and GRU cells wrapped in the general `RNN` layer."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding

LAYER_OF = {"LSTMCell": "LSTM", "GRUCell": "GRU"}
"""The layer that does the same as `RNN(cell)` and has a cuDNN kernel."""


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
