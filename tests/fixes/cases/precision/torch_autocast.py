"""The cases of `torch_autocast`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, by_cuda, machine, probe
from fixes.cases.common.torch_cases import CALLS, MODEL, torch_evidence
from fixes.cases.precision._autocast_examples import EXAMPLES
from fixes.cases.precision._autocast_refusals import REFUSED
from trainperf.model import (
    Gpu,
    Measure,
    Missing,
    PhaseUse,
    Site,
    Times,
)

A100 = machine(gpus=(Gpu(0, "NVIDIA A100-SXM4-40GB", compute_capability="8.0"),))

T4 = machine(gpus=(Gpu(0, "Tesla T4", compute_capability="7.5"),))

P100 = machine(gpus=(Gpu(0, "Tesla P100-PCIE-16GB", compute_capability="6.0"),))

BF16_CPU = {"bf16_cpu": True}

FAST = {"autocast": replace(probe(1.8), base_s=0.090, candidate_s=0.050)}

PERCEPTRON = replace(MODEL, modules={"Linear": 24, "LayerNorm": 12}, image_input=False)

NOISY = Times(
    Measure(2.86, 4, (1.0, 4.7), low=0.0, high=26.6),
    Measure(0.89, 2, (0.89,)),
    Measure(0.016, 22, (0.016,)),
    Missing("not measured in this case"),
)

STEP_SITE = Site("train.py", 23, "main", col=8, end_line=23, end_col=24)

UPDATED = replace(CALLS, step=STEP_SITE)


def _busy(value: float) -> tuple[PhaseUse, ...]:
    return (PhaseUse("resident", 20, gpu=({"index": 0, "sm_active": value / 100},)),)


silent = [
    # a CPU that would compute bfloat16 by detours
    torch_evidence(probes=FAST),
    # it was not tried
    torch_evidence(flags=BF16_CPU),
    # it was tried, and gave nothing
    torch_evidence(flags=BF16_CPU, probes={"autocast": probe(1.04)}),
    torch_evidence(device=GPU, machine=A100, probes={"autocast": probe(1.04)}),
    # mixed already
    torch_evidence(flags=BF16_CPU, probes=FAST, calls=replace(CALLS, autocast="bfloat16")),
    torch_evidence(device=GPU, machine=A100, calls=replace(CALLS, scaler=True)),
    torch_evidence(device=GPU, machine=A100, model=replace(MODEL, dtypes=("bfloat16",))),
    torch_evidence(device=GPU, machine=A100, model=replace(MODEL, dtypes=("float32", "bfloat16"))),
    # no tensor cores, or nothing known of the calls
    torch_evidence(device=GPU, machine=P100),
    torch_evidence(device=by_cuda("Tesla P100-PCIE-16GB", "6.0")),
    torch_evidence(device=GPU, machine=A100, calls=None),
    # nothing for them to do
    torch_evidence(device=GPU, machine=A100, model=replace(MODEL, modules={"Embedding": 2})),
    # compiled, and not tried
    torch_evidence(device=GPU, machine=A100, model=replace(MODEL, compiled=True)),
    # the GPU waits for its kernels to be started
    torch_evidence(device=GPU, machine=A100, use=_busy(25)),
    # input-bound: a faster step only waits longer
    torch_evidence(flags=BF16_CPU, probes=FAST, resident=0.020, input=0.098, split=Missing("no")),
]

fires = [
    torch_evidence(flags=BF16_CPU, probes=FAST),
    torch_evidence(device=GPU, machine=A100),
    torch_evidence(device=by_cuda("NVIDIA A100-SXM4-40GB", "8.0")),
    torch_evidence(device=GPU, machine=A100, use=_busy(96), probes=FAST),
    torch_evidence(device=GPU, machine=A100, model=PERCEPTRON),
    torch_evidence(flags=BF16_CPU, probes=FAST, model=replace(MODEL, compiled=True)),
    torch_evidence(device=GPU, machine=T4, calls=UPDATED),
    torch_evidence(device=GPU, machine=T4, calls=replace(UPDATED, retains_graph=True)),
    torch_evidence(device=GPU, machine=A100, calls=replace(CALLS, forward=None)),
    torch_evidence(device=GPU, machine=A100, split=Missing("no")),
]

tries_not = [
    # mixed already
    torch_evidence(calls=replace(CALLS, autocast="bfloat16")),
    torch_evidence(calls=replace(CALLS, scaler=True)),
    torch_evidence(model=replace(MODEL, dtypes=("bfloat16", "float32"))),
    # a GPU without 16-bit products
    torch_evidence(device=GPU, machine=P100),
    # called where no edit can reach
    torch_evidence(flags=BF16_CPU, calls=replace(CALLS, forward=None)),
    torch_evidence(flags=BF16_CPU, calls=None),
    # nothing the step does matters
    torch_evidence(flags=BF16_CPU, resident=0.002, input=0.099),
    torch_evidence(flags=BF16_CPU, model=None),
]

tries = [
    # no probe, whatever the CPU
    torch_evidence(flags=BF16_CPU),
    torch_evidence(),
    torch_evidence(flags=BF16_CPU, real=None, resident=None, input=None),
    # a probe that says little, and one that says slower
    torch_evidence(flags=BF16_CPU, probes={"autocast": probe(1.04)}),
    torch_evidence(flags=BF16_CPU, probes={"autocast": probe(0.5)}),
    # the backward is called by a library
    torch_evidence(flags=BF16_CPU, calls=replace(CALLS, backward=None)),
    # noise that would hide all the step
    replace(torch_evidence(flags=BF16_CPU), times=NOISY),
    # a GPU that waits for its kernels
    torch_evidence(device=GPU, machine=A100, use=_busy(25)),
]

examples = [*EXAMPLES, *REFUSED]
