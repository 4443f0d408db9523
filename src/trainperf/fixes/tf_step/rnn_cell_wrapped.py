"""LSTM and GRU cells wrapped in the general `RNN` layer."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import GPU, SITE, evidence
from trainperf.fixes.common.keras_source import keras_name
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding, LayerFacts, ModelFacts, Site
from trainperf.source.arguments import argument, starred
from trainperf.source.statements import last_name

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SAME_PLACES = 4
"""So many positional arguments of the cells are those of the layers, in the same order."""

OF_THE_CELL = frozenset({"name", "dtype"})
"""Keywords of a cell that would mean the whole layer."""

LAYER_OF = {"LSTMCell": "LSTM", "GRUCell": "GRU"}
"""The layer that does the same as `RNN(cell)` and has a cuDNN kernel."""


def _model(cls: str = "RNN", **config: Any) -> ModelFacts:
    return ModelFacts("model", "Sequential", recurrent=(LayerFacts("rnn", cls, config, SITE),))


def _untouched(call: str) -> Example:
    text = "from keras import layers\n\nx = {}(x)\n"
    return Example(before=text.format(f"▸{call}◂"), after=text.format(call))


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
    examples = [
        Example(
            before="""\
from tensorflow.keras import layers

x = ▸layers.RNN(layers.LSTMCell(64, dropout=0.1), return_sequences=True)◂(x)
""",
            after="""\
from tensorflow.keras import layers

x = layers.LSTM(64, dropout=0.1, return_sequences=True)(x)
""",
        ),
        Example(
            before="import keras\nfrom keras.layers import RNN, GRUCell\n\n"
            "model.add(▸RNN(cell=GRUCell(units=8))◂)\n",
            after="import keras\nfrom keras.layers import RNN, GRUCell\n\n"
            "model.add(keras.layers.GRU(units=8))\n",
        ),
        # the cell has a name that others may use, or is made elsewhere, or is one of several
        _untouched("layers.RNN(layers.LSTMCell(64, name='inner'))"),
        _untouched("layers.RNN(cell)"),
        _untouched("layers.RNN([layers.LSTMCell(64), layers.LSTMCell(32)])"),
        _untouched("layers.RNN(layers.LSTMCell(64), True)"),
        _untouched("layers.RNN(layers.LSTMCell(64, **how))"),
        _untouched("layers.RNN(layers.LSTMCell(64), **how)"),
        _untouched("layers.RNN(MyLSTMCell(64))"),
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

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Build the layer with the arguments of the cell and those of `RNN`."""
        for site in finding.where:
            script.replace_call(site, _layer(script, site))


def _layer(script: Script, site: Site) -> str:
    """The layer that does the same as the `RNN` at `site`."""
    call = script.call(site)
    cell = argument(call, "cell", 0)
    if not isinstance(cell, ast.Call):
        raise CannotRewrite("the cell is not made in the call of `RNN`")
    if starred(call) or starred(cell) or len(call.args) > 1 or len(cell.args) > SAME_PLACES:
        raise CannotRewrite("not all arguments of the cell and of `RNN` are named")
    layer = LAYER_OF.get(last_name(cell.func))
    if layer is None:
        raise CannotRewrite(f"{ast.unparse(cell.func)} has no layer")
    outer = {name: text for name, text in script.call_keywords(site).items() if name != "cell"}
    inner = script.site_of(site, cell)
    own = script.call_keywords(inner)
    twice = own.keys() & (outer.keys() | OF_THE_CELL)
    if twice:
        raise CannotRewrite(f"the cell has a {min(twice)} of its own")
    placed = [script.argument(inner, index) for index in range(len(cell.args))]
    given = [script.expression(one) for one in placed if one is not None]
    given += [f"{name}={text}" for name, text in (own | outer).items()]
    if isinstance(call.func, ast.Attribute):
        reached = f"{script.expression(script.receiver(site))}.{layer}"
    else:
        reached = f"{keras_name(script, site.file, 'keras')}.layers.{layer}"
    return f"{reached}({', '.join(given)})"
