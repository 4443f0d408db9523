"""Diagnoses of PyTorch scripts, as they come: a slow loader on a GPU, a small GPT on a CPU."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import stage
from fixes.cases.common.torch_cases import LOADER, MODEL, OPTIMIZER, split, torch_evidence
from reporters.samples_observed import CPU_BOX, CWD, GIB, GPU_BOX, INPUT_BOUND
from reporters.samples_tried import CONTROL
from trainperf.model import (
    BetweenEpochs,
    Device,
    Diagnosis,
    Equivalence,
    Evidence,
    Finding,
    Framework,
    Function,
    FunctionCost,
    Loop,
    Missing,
    NotTaken,
    Operator,
    Outcome,
    Overhead,
    Patch,
    PatchedFile,
    PhaseUse,
    Site,
    Stack,
    StartUp,
    StepCalls,
    SyncPoint,
    Trace,
    Trial,
    Trials,
)
from trainperf.report import assemble as report
from trainperf.verdict import verdict

SCRIPT = f"{CWD}/train.py"
BUILT = Site(SCRIPT, 33, "main", col=13, end_line=33, end_col=68)
FORWARD = Site(SCRIPT, 40, "main", col=17, end_line=40, end_col=30)
LOGGED = Site(SCRIPT, 45, "main", col=20, end_line=45, end_col=31)
ITEM = Function("__getitem__", f"{CWD}/flowers.py", 19)

A10G = Device("GPU", "NVIDIA A10G", 1)
ONE_GPU = replace(GPU_BOX, gpus=GPU_BOX.gpus[:1], cores=8.0, visible_cores=8, affinity_cores=8)

SLOW_LOADER: Evidence = torch_evidence(
    real=0.213,
    resident=0.0612,
    input=0.1508,
    device=A10G,
    machine=ONE_GPU,
    loader=replace(
        LOADER, where=BUILT, dataset="Flowers", item=Site(ITEM.file, ITEM.line, ITEM.name)
    ),
    model=MODEL,
    optimizer=OPTIMIZER,
    framework=Framework("torch", "2.13.0+cu126", built_with_cuda=True),
    loop=Loop(
        "iterator",
        where=Site(SCRIPT, 36, "main"),
        batch_size=64,
        batch_bytes=64 * 224 * 224 * 3 * 4,
        batch_dtypes=("float32", "int64"),
        epoch_steps=57,
        input_kind="DataLoader",
    ),
    startup=StartUp(7.91, imports_s=2.41, setup_s=5.5, warm_up_steps=9),
    between_epochs=BetweenEpochs(1.31, 2, epoch_steps=57, validation_s=1.12, restart_s=0.004),
    stages_=(
        stage("sampler", 0.00011, where=BUILT),
        stage("dataset item", 0.1372, where=BUILT, function=ITEM, arguments={"workers": 0}),
        stage("collate", 0.0131, where=BUILT, arguments={"batch_size": 64}),
        stage("pin", None, where=BUILT),
    ),
    functions=(
        FunctionCost(
            "Flowers.__getitem__", ITEM.file, 24, 0.52, "main", 402, "PIL.Image.Image.resize"
        ),
        FunctionCost("main", SCRIPT, 45, 0.11, "main", 85, "torch.Tensor.item"),
    ),
    use=(
        PhaseUse(
            "real",
            31,
            cpu_cores=1.21,
            rss_peak=int(3.1 * GIB),
            gpu=(
                {
                    "index": 0,
                    "samples": 31,
                    "utilization_percent": 27.0,
                    "power_w": 96.4,
                    "sm_clock_mhz": 1695.0,
                    "memory_used_peak": int(6.4 * GIB),
                    "throttle": [],
                },
            ),
        ),
    ),
    split=split(
        input=0.1511,
        transfer=0.0084,
        forward=0.0171,
        backward=0.0333,
        optimizer=0.0029,
        zero_grad=0.0004,
        sync=0.0003,
        rest=0.0021,
    ),
    torch={
        "syncs": (
            SyncPoint("item", LOGGED, 1.0, 0.0003, printed=True),
            SyncPoint("cpu", Site(SCRIPT, 47, "main"), 0.02, 0.000004),
        ),
        "memory": {
            "allocated_peak": int(4.1 * GIB),
            "reserved_peak": int(5.2 * GIB),
            "total": int(22.5 * GIB),
            "retries": 0,
            "ooms": 0,
        },
        "trace": Trace(
            "cuda",
            3,
            (
                Operator("aten::cudnn_convolution", 53.0, 0.0131),
                Operator("ConvolutionBackward0", 53.0, 0.0242),
                Operator("aten::cudnn_batch_norm", 53.0, 0.0039),
                Operator("aten::cudnn_batch_norm_backward", 53.0, 0.0061),
                Operator("aten::add_", 122.0, 0.0009),
                Operator("aten::fill_", 1.0, 0.000002),
            ),
            others_s=0.0021,
            kernels=702.0,
            gap_s=0.0041,
            tensor_core_s=0.0288,
            fusable_s=0.0125,
            seconds=0.0561,
        ),
    },
)

WORKERS = Finding(
    id="torch_workers",
    category="input",
    title="Make the batches in worker processes",
    text="The training process makes every batch itself, 151 ms of each 213 ms step, while "
    "the model waits. 1.2 of 8 cores were busy.",
    bound=3.48,
    bound_basis="213 ms as it is, 61.2 ms with its data already there",
    equivalence=Equivalence.NUMERICS,
    where=(BUILT,),
    advice="Start with as many workers as there are cores to spare.",
    snippet="loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4)",
    rewritable=True,
)

AUTOCAST = Finding(
    id="torch_autocast",
    category="model",
    title="Compute in bfloat16",
    text="All of the model is computed in float32. In alternating blocks of 8 steps autocast to "
    "bfloat16 took 38.1 ms against 61.0 ms.",
    bound=1.12,
    bound_basis="probe: 1.56× to 1.64× of the model's part",
    equivalence=Equivalence.NUMERICS,
    where=(FORWARD,),
    advice="Run the forward pass and the loss under `torch.autocast`.",
    snippet='with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = criterion(model(x), y)',
    rewritable=True,
)

DIFF = """--- a/train.py
+++ b/train.py
@@ -33,1 +33,1 @@
-    loader = DataLoader(data, batch_size=64, shuffle=True)
+    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4)
"""


def diagnosed(evidence: Evidence, findings: tuple[Finding, ...]) -> Diagnosis:
    """The diagnosis of `evidence`, without trials."""
    return replace(
        INPUT_BOUND,
        framework=evidence.framework,
        device=evidence.device,
        machine=evidence.machine,
        loop=evidence.loop,
        verdict=verdict(evidence, findings),
        times=report.times(evidence),
        startup=evidence.startup,
        between_epochs=evidence.between_epochs,
        stages=report.stages(evidence),
        callbacks=(),
        functions=evidence.functions,
        utilization=evidence.use,
        findings=findings,
        practices=(),
        patch=Patch("", ()),
        not_measured=(),
        notes=(),
        step_parts=report.step_parts(evidence),
        sync_points=report.sync_points(evidence),
        device_memory=report.device_memory(evidence),
        operators=report.operators(evidence),
        kernels=report.kernels(evidence),
    )


TORCH_OBSERVED = replace(
    diagnosed(SLOW_LOADER, (WORKERS, AUTOCAST)),
    patch=Patch(DIFF, ("torch_workers",), root=CWD, files=(PatchedFile(SCRIPT, "9f" * 32),)),
    not_measured=(
        NotTaken("the stage `pin`", "a thread of the loader does it beside the loop"),
        NotTaken("gradient exchange", "the script trains on one device"),
    ),
)

TORCH_TRIED = replace(
    TORCH_OBSERVED,
    trials=(
        Trial(
            "torch_workers",
            Outcome.KEPT,
            "",
            *(3.12, 3.04, 3.2, 12, 60),
            parity="same to rounding",
            kept=True,
            bound=3.48,
            variant="workers=4",
        ),
        Trial(
            "torch_workers",
            Outcome.REDUNDANT,
            "workers=4 gives more",
            *(1.92, 1.89, 1.95, 12, 60),
            parity="same to rounding",
            bound=3.48,
            variant="workers=2",
        ),
        Trial(
            "torch_workers",
            Outcome.REDUNDANT,
            "workers=4 gives more",
            *(3.01, 2.88, 3.14, 12, 60),
            parity="same to rounding",
            bound=3.48,
            variant="workers=8",
        ),
        Trial(
            "torch_autocast",
            Outcome.NO_EFFECT,
            "the interval does not clear the noise of 0.8 %",
            *(1.004, 0.991, 1.017, 12, 60),
            parity="same to 2 %",
            bound=1.12,
        ),
    ),
    trying=Trials("side by side", legs=6, seconds=61.0, seed=1234),
    control=CONTROL,
    stack=Stack(
        ("torch_workers",), 3.12, 3.04, 3.2, 12, 60, None, 0.213, 0.0683, 300.5, 937.1, 12.1, 3.9
    ),
    overhead=Overhead(0.000031, 0.0001, observing_s=19.4, trying_s=61.0),
    seconds=80.4,
)

MEMMAP_GPT: Evidence = torch_evidence(
    real=0.0941,
    resident=None,
    input=None,
    machine=CPU_BOX,
    device=Device("CPU", "AMD EPYC 7R13", 1),
    loader=None,
    calls=StepCalls(forward=Site(SCRIPT, 93, "main"), backward=Site(SCRIPT, 95, "main")),
    framework=Framework("torch", "2.13.0", built_with_cuda=False),
    loop=Loop("update", where=Site(SCRIPT, 91, "main"), batch_size=8, batch_dtypes=("int64",)),
    startup=StartUp(3.2, imports_s=1.9, setup_s=1.3, warm_up_steps=6),
    stages_=Missing("the loop takes its batches from no DataLoader"),
    functions=(
        FunctionCost("get_batch", SCRIPT, 30, 0.211, "main", 170, "torch.stack"),
        FunctionCost(
            "Attention.forward", SCRIPT, 51, 0.174, "main", 140, "torch.Tensor.masked_fill"
        ),
        FunctionCost("main", SCRIPT, 95, 0.55, "main", 444, "torch.Tensor.backward"),
    ),
    use=(PhaseUse("real", 30, cpu_cores=6.2, rss_peak=int(0.9 * GIB)),),
    torch={
        "trace": Trace(
            "cpu",
            3,
            (
                Operator("aten::mm", 35.0, 0.0327),
                Operator("aten::copy_", 60.0, 0.00486),
                Operator("aten::bmm", 24.0, 0.00485),
                Operator("aten::sum", 19.0, 0.00347),
                Operator("aten::addmm", 16.0, 0.0027),
                Operator("aten::native_layer_norm_backward", 9.0, 0.00223),
                Operator("aten::masked_fill_", 8.0, 0.00125),
                Operator("aten::div", 8.0, 0.00123),
                Operator("aten::_softmax", 4.0, 0.00101),
            ),
            others_s=0.0031,
            kernels=1204.0,
            seconds=0.0651,
        )
    },
    split=split(forward=0.0251, backward=0.0372, optimizer=0.0101, zero_grad=0.0006, rest=0.0231),
)

BATCHES = Finding(
    id="torch_batches_ahead",
    category="input",
    title="Make the next batch while the model works",
    text="`get_batch` takes 20.1 ms of each 94.1 ms step, in the training process itself.",
    bound=1.27,
    bound_basis="as if batches were free",
    equivalence=Equivalence.NUMERICS,
    where=(Site(SCRIPT, 92, "main"),),
    advice="Make batches in a `DataLoader` with workers, or in a thread of their own.",
)

TORCH_GPT = replace(
    diagnosed(MEMMAP_GPT, (BATCHES,)),
    not_measured=(
        NotTaken(
            "the step with free input",
            "the loop makes its own batches and its step is not one function call",
        ),
        NotTaken("GPU use", "libnvidia-ml.so.1 is not on this machine"),
    ),
)

TORCH = {
    "torch_observed": TORCH_OBSERVED,
    "torch_tried": TORCH_TRIED,
    "torch_gpt": TORCH_GPT,
}
