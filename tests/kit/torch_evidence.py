"""Evidence for the cases of PyTorch's fixes: everything plausible, except what a case names."""

from __future__ import annotations

from typing import Any

from kit.evidence import OTHER_SITE, SITE, evidence
from trainperf.model import (
    Evidence,
    Framework,
    Loader,
    Loop,
    Missing,
    Operator,
    Site,
    StepCalls,
    StepPart,
    Torch,
    TorchModel,
    TorchOptimizer,
    Trace,
)

LOADER_SITE = Site("train.py", 8, "main", col=13, end_line=8, end_col=60)
ITEM_SITE = Site("data.py", 30, "__getitem__")
FORWARD_SITE = Site("train.py", 21, "main", col=21, end_line=21, end_col=34)
BACKWARD_SITE = Site("train.py", 22, "main", col=8, end_line=22, end_col=23)

LOADER = Loader(
    where=LOADER_SITE,
    role="training",
    dataset="Images",
    item=ITEM_SITE,
    batches=500,
    batch_size=32,
    shuffled=True,
    random=False,
    shared_state="",
    item_threads=1,
)
MODEL = TorchModel(
    "Net",
    where=SITE,
    call=FORWARD_SITE,
    name="model",
    parameters=1_000_000,
    modules={"Conv2d": 8, "ReLU": 8, "Linear": 1},
    dtypes=("float32",),
    channels_last=False,
    image_input=True,
)
OPTIMIZER = TorchOptimizer(
    "AdamW",
    where=OTHER_SITE,
    step_where=BACKWARD_SITE,
    can_fuse=True,
    tensors=40,
    parameters=1_000_000,
    set_to_none=True,
)
CALLS = StepCalls(forward=FORWARD_SITE, backward=BACKWARD_SITE)
FLAGS: dict[str, Any] = {
    "matmul_precision": "highest",
    "cudnn_benchmark": False,
    "deterministic": False,
    "anomaly": False,
    "profiler": False,
    "launch_blocking": False,
    "threads": 8,
    "omp_num_threads": None,
    "alloc_conf": "",
    "bf16_cpu": False,
    "float64_batch": False,
}


def split(**seconds: float) -> tuple[StepPart, ...]:
    """The parts of a step, one call each: `split(forward=0.03, backward=0.06)`."""
    return tuple(StepPart(name, each, 1.0) for name, each in seconds.items())  # type: ignore[arg-type]


SPLIT = split(input=0.001, transfer=0.0, forward=0.030, backward=0.060, optimizer=0.005, rest=0.002)


def traced(share: float) -> Trace:
    """A trace of a pass whose kernels take that share of the usual resident step of 98 ms."""
    return Trace("cuda", 3, (Operator("aten::addmm", 24, 0.098 * share),), 0.0, 120, gap_s=0.0)


def torch_evidence(
    *,
    loader: Loader | None = LOADER,
    model: TorchModel | None = MODEL,
    optimizer: TorchOptimizer | None = OPTIMIZER,
    calls: StepCalls | None = CALLS,
    flags: dict[str, Any] | None = None,
    split: tuple[StepPart, ...] | Missing = SPLIT,
    torch: dict[str, Any] | None = None,
    **fields: Any,
) -> Evidence:
    """A healthy PyTorch loop over a `DataLoader` on an 8-core box without a GPU.

    `flags` are laid over the usual ones; `torch` holds further fields of `Torch`, all
    else those of `evidence()`.
    """
    fields.setdefault("framework", Framework("torch", "2.13.0"))
    fields.setdefault("models", ())
    fields.setdefault("host", None)
    fields.setdefault(
        "loop",
        Loop(
            "iterator",
            where=SITE,
            batch_size=32,
            epochs=None,
            epoch_steps=500,
            input_kind="DataLoader",
        ),
    )
    return evidence(
        torch_=Torch(
            loaders=() if loader is None else (loader,),
            models=() if model is None else (model,),
            optimizers=() if optimizer is None else (optimizer,),
            calls=calls,
            split_=split,
            flags={**FLAGS, **(flags or {})},
            **(torch or {}),
        ),
        **fields,
    )
