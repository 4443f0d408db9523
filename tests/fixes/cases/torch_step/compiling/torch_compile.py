"""The cases of `torch_compile`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, SITE, probe
from fixes.cases.common.torch_cases import CALLS, MODEL, split, torch_evidence
from fixes.cases.torch_step.compiling._compile_examples import EXAMPLES
from trainperf.model import (
    Loop,
    Missing,
    Operator,
    PhaseUse,
    Trace,
)
from trainperf.model.torch.compiling import Blocks

SMALL = replace(MODEL, modules={"Linear": 4}, image_input=False, graph_calls=240)

IN_BLOCKS = replace(SMALL, blocks=(Blocks(".layers", "Layer", 12),))

FASTER = replace(probe(1.8, one_off_s=12.0), base_s=0.09)

COMPILER = {"cpp_compiler": True}

SHORT = Loop("iterator", where=SITE, epochs=1, epoch_steps=100)

SLOW_TO_PAY = replace(probe(1.6, one_off_s=40.0), base_s=0.09)

TINY = (Operator("aten::mul", 60, 0.030), Operator("aten::add_", 60, 0.030))

TRACE = Trace("cpu", 3, (*TINY, Operator("aten::addmm", 6, 0.005)), 0.010, 240, fusable_s=0.070)

CHAIN = replace(TRACE, operators=(*TINY, Operator("aten::addmm", 24, 0.060)))

MATMULS = Trace("cpu", 3, (Operator("aten::addmm", 24, 0.088),), 0.001, 30, fusable_s=0.001)

NORMS = Trace(
    "cuda",
    3,
    (Operator("aten::addmm", 24, 0.050), Operator("aten::native_layer_norm", 24, 0.030)),
    0.005,
    120,
    gap_s=0.001,
    fusable_s=0.035,
)

PRODUCTS = replace(NORMS, fusable_s=0.004)

TINY_KERNELS = replace(
    NORMS,
    operators=(Operator("aten::mul", 300, 0.004),),
    others_s=0.001,
    gap_s=0.3,
    fusable_s=0.004,
)


def _busy(value: float) -> tuple[PhaseUse, ...]:
    return (PhaseUse("resident", 20, gpu=({"index": 0, "sm_active": value / 100},)),)


silent = [
    torch_evidence(),
    # few kernels
    torch_evidence(device=GPU, model=replace(SMALL, graph_calls=20), use=_busy(31)),
    # compiled already
    torch_evidence(model=replace(SMALL, compiled=True), probes={"compile": FASTER}),
    # a shape for nearly every batch
    torch_evidence(model=replace(SMALL, shapes=12), probes={"compile": FASTER}),
    # many kernels on a CPU say nothing of the time they take
    torch_evidence(model=SMALL),
    # matrix products take much of the time; a trace, and no compiler
    torch_evidence(model=SMALL, torch={"trace": CHAIN}),
    torch_evidence(model=SMALL, torch={"trace": TRACE}, flags={"cpp_compiler": False}),
    # the GPU waits for something else
    torch_evidence(
        device=GPU,
        model=SMALL,
        use=_busy(31),
        split=split(forward=0.001, backward=0.001, rest=0.096),
    ),
    # the GPU has its kernels in time, or nobody knows
    torch_evidence(device=GPU, model=SMALL, use=_busy(94)),
    torch_evidence(device=GPU, model=SMALL),
    # its kernels are products, and the gaps between them are few
    torch_evidence(device=GPU, model=SMALL, use=_busy(94), torch={"trace": PRODUCTS}),
    # they are, and what NVML says of its windows does not make gaps
    torch_evidence(device=GPU, model=SMALL, use=_busy(31), torch={"trace": PRODUCTS}),
    # it ran slower compiled, or not surely faster
    torch_evidence(model=SMALL, probes={"compile": probe(0.7)}),
    torch_evidence(model=SMALL, probes={"compile": probe(1.2, spread=0.2)}),
    # the run is over before it has paid
    torch_evidence(model=SMALL, loop=SHORT, probes={"compile": SLOW_TO_PAY}),
    # input-bound
    torch_evidence(model=SMALL, probes={"compile": FASTER}, resident=0.020, input=0.098),
    # compiled code has no gradients of gradients
    torch_evidence(
        model=SMALL, probes={"compile": FASTER}, calls=replace(CALLS, retains_graph=True)
    ),
]

fires = [
    torch_evidence(device=GPU, model=SMALL, use=_busy(31)),
    # norms and elements, one kernel after the other, on a GPU that is always busy
    torch_evidence(device=GPU, model=SMALL, use=_busy(95), torch={"trace": NORMS}),
    torch_evidence(device=GPU, torch={"trace": NORMS}, split=Missing("not timed")),
    # a GPU that waits for its kernels, whatever NVML's windows say
    torch_evidence(device=GPU, model=SMALL, use=_busy(95), torch={"trace": TINY_KERNELS}),
    torch_evidence(model=SMALL, probes={"compile": FASTER}),
    torch_evidence(model=SMALL, torch={"trace": TRACE}),
    # a loop without a DataLoader
    torch_evidence(model=SMALL, probes={"compile": FASTER}, loader=None, resident=None, input=None),
    torch_evidence(model=replace(SMALL, cls="Sequential", name=""), probes={"compile": FASTER}),
    torch_evidence(model=IN_BLOCKS, probes={"compile": FASTER}),
]

tries_not = [
    # nothing to compile it with, or nobody looked
    torch_evidence(model=SMALL, flags={"cpp_compiler": False}),
    torch_evidence(model=SMALL),
    # compiled already
    torch_evidence(model=replace(SMALL, compiled=True), flags=COMPILER),
    # a shape for nearly every batch
    torch_evidence(model=replace(SMALL, shapes=12), flags=COMPILER),
    torch_evidence(model=SMALL, flags=COMPILER, calls=replace(CALLS, retains_graph=True)),
    # a chain of matrix products, on a CPU
    torch_evidence(model=SMALL, flags=COMPILER, torch={"trace": MATMULS}),
    # built where no edit can reach
    torch_evidence(model=replace(SMALL, where=None), flags=COMPILER),
    # nothing the step does matters
    torch_evidence(model=SMALL, flags=COMPILER, resident=0.002, input=0.099),
]

tries = [
    torch_evidence(model=SMALL, flags=COMPILER),
    torch_evidence(model=SMALL, flags=COMPILER, torch={"trace": CHAIN}),
    torch_evidence(flags=COMPILER),
    torch_evidence(model=SMALL, flags=COMPILER, probes={"compile": probe(0.7)}),
    torch_evidence(device=GPU, model=SMALL),
    torch_evidence(device=GPU, model=SMALL, use=_busy(94)),
]

examples = EXAMPLES
