"""The cases of `rnn_cudnn`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU, SITE, evidence
from trainperf.model import LayerFacts, ModelFacts


def _model(cls: str = "LSTM", **config: Any) -> ModelFacts:
    layer = LayerFacts("layer", cls, config, SITE)
    return ModelFacts("model", "Sequential", recurrent=(layer,))


silent = [
    evidence(),
    # cuDNN cannot be used without a GPU
    evidence(model=_model(recurrent_dropout=0.2)),
    evidence(device=GPU, model=_model()),
    evidence(
        device=GPU,
        model=_model(
            activation="tanh",
            recurrent_activation="sigmoid",
            use_bias=True,
            recurrent_dropout=0.0,
            unroll=False,
            use_cudnn="auto",
        ),
    ),
    evidence(device=GPU, model=_model("GRU", reset_after=True)),
    # no cuDNN kernel exists for these
    evidence(device=GPU, model=_model("SimpleRNN", activation="relu")),
    evidence(device=GPU, model=_model("RNN", cell="LSTMCell")),
    # unroll alone is another finding
    evidence(device=GPU, model=_model(unroll=True)),
    # input-bound
    evidence(device=GPU, model=_model(recurrent_dropout=0.2), resident=0.004, input=0.098),
]

fires = [
    evidence(device=GPU, model=_model(recurrent_dropout=0.2)),
    evidence(device=GPU, model=_model(activation="relu", unroll=True)),
    evidence(device=GPU, model=_model("GRU", reset_after=False)),
    evidence(device=GPU, model=_model("GRU", use_cudnn=False)),
]
