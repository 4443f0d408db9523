"""The cases of `torch_zero_grad`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, SITE
from fixes.cases.common.torch_cases import OPTIMIZER, split, torch_evidence
from trainperf.model import Missing

ZEROED = replace(OPTIMIZER, set_to_none=False, zero_grad_where=SITE)

DEAR = split(forward=0.02, backward=0.05, optimizer=0.01, zero_grad=0.008, rest=0.01)

silent = [
    # PyTorch's default
    torch_evidence(split=DEAR),
    # never called, as far as was seen
    torch_evidence(split=DEAR, optimizer=replace(ZEROED, set_to_none=None)),
    torch_evidence(split=DEAR, optimizer=None),
    # nothing to save
    torch_evidence(split=split(forward=0.09, zero_grad=0.0002), optimizer=ZEROED),
    # it was not timed
    torch_evidence(split=Missing("not timed"), optimizer=ZEROED),
    torch_evidence(split=split(forward=0.09), optimizer=ZEROED),
    # input-bound
    torch_evidence(split=DEAR, optimizer=ZEROED, resident=0.020, input=0.099),
]

fires = [
    torch_evidence(split=DEAR, optimizer=ZEROED),
    torch_evidence(split=DEAR, optimizer=ZEROED, device=GPU),
    torch_evidence(split=DEAR, optimizer=replace(ZEROED, zero_grad_where=None)),
]
