"""The cases of `torch_cudnn_benchmark`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, probe
from fixes.cases.common.torch_cases import MODEL, torch_evidence, traced
from rewriting import Example
from trainperf.model import Loop

BUSY_80 = {"trace": traced(0.8)}

BUSY_10 = {"trace": traced(0.1)}

silent = [
    # no GPU
    torch_evidence(),
    # on already, or runs are to repeat exactly
    torch_evidence(device=GPU, flags={"cudnn_benchmark": True}),
    torch_evidence(device=GPU, flags={"deterministic": True}),
    # no convolutions
    torch_evidence(device=GPU, model=replace(MODEL, modules={"Linear": 4})),
    # shapes change
    torch_evidence(device=GPU, model=replace(MODEL, shapes=5)),
    # the kernels take little of the step
    torch_evidence(device=GPU, torch=BUSY_10),
    # it was tried, and gave nothing
    torch_evidence(device=GPU, probes={"cudnn_benchmark": probe(1.0)}),
    # input-bound
    torch_evidence(device=GPU, resident=0.020, input=0.098),
]

fires = [
    torch_evidence(device=GPU),
    torch_evidence(device=GPU, torch=BUSY_80),
    torch_evidence(device=GPU, loader=None, resident=None, input=None),
    torch_evidence(device=GPU, loop=Loop("update")),
    torch_evidence(device=GPU, probes={"cudnn_benchmark": replace(probe(1.2), base_s=0.09)}),
]

tries_not = [
    torch_evidence(),
    torch_evidence(device=GPU, flags={"cudnn_benchmark": True}),
    torch_evidence(device=GPU, flags={"deterministic": True}),
    torch_evidence(device=GPU, model=replace(MODEL, modules={"Linear": 4})),
    torch_evidence(device=GPU, model=replace(MODEL, shapes=5)),
    torch_evidence(device=GPU, resident=0.002, input=0.099),
]

tries = [
    torch_evidence(device=GPU, torch=BUSY_10),
    torch_evidence(device=GPU, probes={"cudnn_benchmark": probe(1.0)}),
]

examples = [
    Example(
        before="import torch\nfrom torch import nn\n\nfor x, y in ▸loader◂:\n    step(x, y)\n",
        after="import torch\nfrom torch import nn\n\n"
        "torch.backends.cudnn.benchmark = True\n\n"
        "for x, y in loader:\n    step(x, y)\n",
    ),
    Example.untouched(
        "import torch\n\ntorch.backends.cudnn.benchmark = False\n"
        "for x, y in ▸loader◂:\n    step(x, y)\n"
    ),
]
