"""The cases of `torch_flatten_parameters`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import MODEL, split, torch_evidence
from trainperf.model import Missing, Site

HEAD = Site("model.py", 12, "forward", end_line=12)

RECURRENT_MODEL = replace(MODEL, modules={"LSTM": 2, "Linear": 1}, image_input=False)

SCATTERED = replace(RECURRENT_MODEL, scattered=(HEAD,))

silent = [
    # they lie side by side
    torch_evidence(device=GPU, model=RECURRENT_MODEL),
    # no cuDNN
    torch_evidence(model=SCATTERED),
    # the forward is short
    torch_evidence(
        device=GPU,
        model=SCATTERED,
        split=split(forward=0.002, backward=0.090, rest=0.006),
    ),
    # input-bound
    torch_evidence(device=GPU, model=SCATTERED, resident=0.020, input=0.098),
    # nothing was timed
    torch_evidence(device=GPU, model=SCATTERED, split=Missing("not split")),
]

fires = [
    torch_evidence(device=GPU, model=SCATTERED),
    torch_evidence(device=GPU, model=SCATTERED, loader=None, resident=None, input=None),
]
