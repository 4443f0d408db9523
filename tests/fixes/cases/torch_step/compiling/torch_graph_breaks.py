"""The cases of `torch_graph_breaks`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import MODEL, torch_evidence
from trainperf.model import Evidence, Operator, Site, Trace
from trainperf.model.torch.compiling import Compiling, GraphBreak

ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"

BREAK = GraphBreak(Site("net.py", 22, "forward"), ITEM)

PRINT = GraphBreak(Site("net.py", 24, "forward"), "Failed to trace builtin operator")

EAGER = Trace("cpu", 3, (Operator("aten::mul", 60, 0.060),), 0.010, 240, fusable_s=0.065)

FUSED = replace(EAGER, operators=(Operator("aten::addmm", 60, 0.088),), fusable_s=0.001)

ON_GPU = replace(FUSED, device="cuda", operators=(Operator("aten::addmm", 60, 0.050),), gap_s=0.0)


def _broken(*breaks: GraphBreak, **fields: Any) -> Evidence:
    trace = fields.pop("trace", EAGER)
    torch = {"compiling": Compiling(breaks=breaks), "trace": trace}
    return torch_evidence(model=replace(MODEL, compiled=True), torch=torch, **fields)


silent = [
    torch_evidence(),
    # one graph
    _broken(),
    # nothing is left that could be put together
    _broken(BREAK, trace=FUSED),
    _broken(BREAK, device=GPU, trace=ON_GPU),
    # nobody looked at the operators
    _broken(BREAK, trace=None),
    # the loop waits for its input
    _broken(BREAK, resident=0.020, input=0.098),
]

fires = [
    _broken(BREAK),
    _broken(replace(BREAK, skips=True), PRINT),
    _broken(BREAK, device=GPU, trace=replace(ON_GPU, gap_s=0.030)),
]
