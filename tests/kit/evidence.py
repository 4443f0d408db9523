"""Evidence for the cases of fixes: everything plausible, except what a case names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainperf.fixes.common.words import GIB
from trainperf.model import (
    CudaDevice,
    Device,
    Evidence,
    Framework,
    Gpu,
    Loop,
    Machine,
    Measure,
    Missing,
    ModelFacts,
    Probe,
    Site,
    Stage,
    StepFunction,
    Times,
)

SITE = Site("train.py", 12, "main", col=9, end_line=12, end_col=30)
OTHER_SITE = Site("train.py", 20, "main", col=4, end_line=20, end_col=30)


def measure(seconds: float | None, reason: str = "not measured in this case") -> Measure | Missing:
    """A measure of three equal blocks, ± 2 %; Missing for None."""
    if seconds is None:
        return Missing(reason)
    return Measure(seconds, 30, (seconds,) * 3, low=seconds * 0.98, high=seconds * 1.02)


def stage(op: str, seconds: float | None = 0.001, **fields: Any) -> Stage:
    """A stage that adds `seconds` per step; `where` is `SITE` unless given."""
    cost: float | Missing = Missing("not timed") if seconds is None else seconds
    fields.setdefault("where", SITE)
    fields.setdefault("index", 0)
    fields.setdefault("cumulative_", cost)
    return Stage(op=op, seconds_per_step_=cost, **fields)


def machine(cores: float = 8, available: int = 32 * GIB, **fields: Any) -> Machine:
    """A Linux box without a GPU."""
    return Machine(
        hostname="box",
        os="Linux 6.1",
        python="3.12.3",
        cpu_model="a CPU",
        visible_cores=int(cores),
        affinity_cores=int(cores),
        quota_cores=None,
        cores=cores,
        memory_total=2 * available,
        memory_limit=2 * available,
        memory_available=available,
        **fields,
    )


CPU = Device("CPU", "a CPU", 1)
GPU = Device("GPU", "NVIDIA A10G", 1)


def probe(ratio: float, spread: float = 0.03, **fields: Any) -> Probe:
    """A probe with the given ratio and a relative half-width of `spread`."""
    return Probe(
        name="",
        base_s=0.010,
        candidate_s=0.010 / ratio,
        ratio=ratio,
        low=ratio * (1 - spread),
        high=ratio * (1 + spread),
        **fields,
    )


def by_cuda(name: str, capability: str) -> Device:
    """A GPU of which CUDA alone tells: NVML is missing here, or may not be asked."""
    return Device("GPU", name, 1, (CudaDevice(0, name, compute_capability=capability),))


def with_gpus(device: Device, box: Machine) -> Device:
    """The device with the GPUs that its process sees: those of the box, the first ones used."""
    if device.kind == "CPU" or device.gpus:
        return device
    cards = box.gpus or tuple(Gpu(index, device.name) for index in range(device.count))
    shown = tuple(
        CudaDevice(
            number=place,
            name=card.name,
            used=place < device.count,
            index=card.index,
            memory_total=card.memory_total,
            compute_capability=card.compute_capability,
            mig=bool(card.mig),
        )
        for place, card in enumerate(cards)
    )
    return replace(device, gpus=shown)


def evidence(
    *,
    real: float | None = 0.100,
    resident: float | None = 0.098,
    input: float | None = 0.010,
    host: float | None = 0.001,
    loop: Loop | None = None,
    model: ModelFacts | None = None,
    step_function: StepFunction | None = None,
    device_s: float | None = None,
    **fields: Any,
) -> Evidence:
    """A healthy `fit` on an 8-core box without a GPU, changed by what is named.

    A GPU is the first of the machine's, if NVML sees any there.
    """
    fields.setdefault("framework", Framework("tensorflow", "2.21.0", keras="3.15.1"))
    fields.setdefault("device", CPU)
    fields.setdefault("machine", machine())
    fields["device"] = with_gpus(fields["device"], fields["machine"])
    models = fields.pop("models", (model,) if model else (ModelFacts("model", "Functional"),))
    return Evidence(
        loop=loop
        or Loop(
            "fit", where=SITE, batch_size=32, epochs=10, epoch_steps=1000, input_kind="tf.data"
        ),
        times=Times(
            measure(real),
            measure(resident),
            measure(input),
            Missing("not measured in this case") if host is None else host,
            device_s=device_s,
        ),
        models=models,
        step_function=step_function,
        **fields,
    )
