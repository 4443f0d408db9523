"""The cases of `torch_matmul_precision`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, by_cuda, machine, probe
from fixes.cases.common.torch_cases import CALLS, MODEL, torch_evidence
from rewriting import Example
from trainperf.model import (
    Gpu,
    Loop,
    PhaseUse,
)

A100 = machine(gpus=(Gpu(0, "NVIDIA A100-SXM4-40GB", compute_capability="8.0"),))

V100 = machine(gpus=(Gpu(0, "Tesla V100-SXM2-16GB", compute_capability="7.0"),))

UNLISTED = machine(gpus=(Gpu(0, "NVIDIA X1", compute_capability="9.9"),))

PERCEPTRON = replace(MODEL, modules={"Linear": 24, "LayerNorm": 12}, image_input=False)


def _busy(value: float) -> tuple[PhaseUse, ...]:
    return (PhaseUse("resident", 20, gpu=({"index": 0, "sm_active": value / 100},)),)


silent = [
    torch_evidence(model=PERCEPTRON),
    # no TF32, or nothing known of the GPU
    torch_evidence(device=GPU, machine=V100, model=PERCEPTRON),
    torch_evidence(device=GPU, machine=UNLISTED, model=PERCEPTRON),
    torch_evidence(device=by_cuda("Tesla V100-SXM2-16GB", "7.0"), model=PERCEPTRON),
    # the training uses another than the first of the machine
    torch_evidence(device=by_cuda("Tesla T4", "7.5"), machine=A100, model=PERCEPTRON),
    # set already
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON, flags={"matmul_precision": "high"}),
    # 16 bits anyway
    torch_evidence(
        device=GPU, machine=A100, model=PERCEPTRON, calls=replace(CALLS, autocast="bfloat16")
    ),
    torch_evidence(device=GPU, machine=A100, model=replace(PERCEPTRON, dtypes=("bfloat16",))),
    # convolutions have it by default
    torch_evidence(device=GPU, machine=A100),
    # the GPU waits for its kernels to be started
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON, use=_busy(25)),
    # it was tried, and gave nothing
    torch_evidence(
        device=GPU, machine=A100, model=PERCEPTRON, probes={"matmul_precision": probe(1.01)}
    ),
    # input-bound
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON, resident=0.020, input=0.098),
]

fires = [
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON),
    torch_evidence(device=by_cuda("NVIDIA A100-SXM4-40GB", "8.0"), model=PERCEPTRON),
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON, use=_busy(97)),
    torch_evidence(
        device=GPU,
        machine=UNLISTED,
        model=PERCEPTRON,
        probes={"matmul_precision": replace(probe(2.5), base_s=0.09)},
    ),
    torch_evidence(
        device=GPU, machine=A100, model=PERCEPTRON, loader=None, resident=None, input=None
    ),
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON, loop=Loop("update")),
]

tries_not = [
    torch_evidence(model=PERCEPTRON),
    torch_evidence(device=GPU, machine=V100, model=PERCEPTRON),
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON, flags={"matmul_precision": "high"}),
    torch_evidence(
        device=GPU, machine=A100, model=PERCEPTRON, calls=replace(CALLS, autocast="bfloat16")
    ),
    torch_evidence(device=GPU, machine=A100, model=replace(MODEL, modules={"Conv2d": 3})),
]

tries = [
    torch_evidence(device=GPU, machine=A100),
    torch_evidence(device=GPU, machine=UNLISTED, model=PERCEPTRON),
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON, use=_busy(25)),
    torch_evidence(
        device=GPU, machine=A100, model=PERCEPTRON, probes={"matmul_precision": probe(1.01)}
    ),
]

examples = [
    Example(
        before="import torch\n\nfor x, y in ▸loader◂:\n    step(x, y)\n",
        after='import torch\n\ntorch.set_float32_matmul_precision("high")\n\n'
        "for x, y in loader:\n    step(x, y)\n",
    ),
    Example(
        before="from torch import nn\n\nfor x, y in ▸loader◂:\n    step(x, y)\n",
        after="from torch import nn\nimport torch\n\n"
        'torch.set_float32_matmul_precision("high")\n\n'
        "for x, y in loader:\n    step(x, y)\n",
    ),
    Example.untouched('import torch\n\ntorch.set_float32_matmul_precision("highest")\n▸run()◂\n'),
]
