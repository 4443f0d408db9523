"""The cases of `rnn_cell_wrapped`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU, SITE, evidence
from trainperf.model import LayerFacts, ModelFacts


def _model(cls: str = "RNN", **config: Any) -> ModelFacts:
    return ModelFacts("model", "Sequential", recurrent=(LayerFacts("rnn", cls, config, SITE),))


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
