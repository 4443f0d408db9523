"""The cases of `rnn_unroll`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU, OTHER_SITE, SITE, evidence
from trainperf.model import (
    LayerFacts,
    Loop,
    ModelFacts,
    Site,
    StartUp,
)

SHORT_RUN = Loop("fit", where=SITE, batch_size=32, epochs=2, epoch_steps=100)

SLOW_START = StartUp(50.0, tracing_s=40.0)


def _model(*sites: Site, cls: str = "LSTM", **config: Any) -> ModelFacts:
    config.setdefault("unroll", True)
    layers = tuple(LayerFacts(f"layer_{n}", cls, config, site) for n, site in enumerate(sites))
    return ModelFacts("model", "Sequential", recurrent=layers)


silent = [
    evidence(),
    evidence(device=GPU, model=_model(SITE, unroll=False), startup=SLOW_START),
    # on a CPU: traced quickly
    evidence(model=_model(SITE), startup=StartUp(6.0, tracing_s=3.0), loop=SHORT_RUN),
    # on a CPU: traced slowly, but the run is long and the steps are faster for it
    evidence(
        model=_model(SITE),
        startup=SLOW_START,
        loop=Loop("fit", where=SITE, epochs=100, epoch_steps=1000),
    ),
    # on a CPU: how long the run will be is not known
    evidence(model=_model(SITE), startup=SLOW_START, loop=Loop("fit", where=SITE)),
    # on a GPU, but another argument excludes cuDNN as well, and tracing is short
    evidence(device=GPU, model=_model(SITE, recurrent_dropout=0.2)),
    # on a GPU, input-bound, and traced quickly
    evidence(device=GPU, model=_model(SITE), resident=0.004, input=0.098),
]

fires = [
    evidence(device=GPU, model=_model(SITE)),
    evidence(device=GPU, model=_model(SITE, OTHER_SITE, cls="SimpleRNN"), startup=SLOW_START),
    evidence(model=_model(SITE), startup=SLOW_START, loop=SHORT_RUN),
]
