"""The cases of `torch_sdpa`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import MODEL, split, torch_evidence
from fixes.cases.torch_step.attention._examples import EXAMPLES
from trainperf.model import FunctionCost, Missing, Site

HEAD = Site("model.py", 40, "forward", end_line=40)

CROSS = Site("model.py", 90, "forward", end_line=90)

BY_HAND = replace(
    MODEL,
    attentions=(HEAD,),
    modules={"Linear": 24, "LayerNorm": 12, "Softmax": 6},
    image_input=False,
)


def _seen(share: float, line: int = 46) -> tuple[FunctionCost, ...]:
    return (FunctionCost("forward", "model.py", line, share, "main", 500),)


silent = [
    torch_evidence(),
    # forward and backward are not what takes the time
    torch_evidence(model=BY_HAND, split=split(forward=0.001, backward=0.002, rest=0.095)),
    # samples of the stack hardly find it there
    torch_evidence(model=BY_HAND, functions=_seen(0.01)),
    torch_evidence(model=BY_HAND, functions=_seen(0.6, line=12)),
    # input-bound
    torch_evidence(model=BY_HAND, resident=0.020, input=0.098),
    # nothing was timed
    torch_evidence(model=BY_HAND, split=Missing("not split")),
]

fires = [
    torch_evidence(model=BY_HAND),
    torch_evidence(model=BY_HAND, functions=_seen(0.18)),
    # in an encoder and in a decoder
    torch_evidence(model=replace(BY_HAND, attentions=(HEAD, CROSS))),
    torch_evidence(device=GPU, model=BY_HAND, functions=_seen(0.01)),
    torch_evidence(model=BY_HAND, loader=None, resident=None, input=None),
]

tries_not = [
    torch_evidence(),
    # input-bound, whatever the step takes
    torch_evidence(model=BY_HAND, resident=0.020, input=0.098),
]

tries = [
    # nothing was timed; samples hardly find it there
    torch_evidence(model=BY_HAND, split=Missing("not split")),
    torch_evidence(model=BY_HAND, functions=_seen(0.01)),
]

examples = EXAMPLES
