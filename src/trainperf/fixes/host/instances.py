"""Advice to take another AWS instance with the same GPU and more cores, and its table of types."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import GB, GIB, MB, MIB, ms, percent, times
from trainperf.model import Evidence, InstanceType

WHOLE = 0.90
"""Share of an instance's vCPUs that the script may use, from which the instance is its
limit and not the container that it runs in."""

BUSY = 0.85
"""Share of the cores that the script must keep busy, with and without the model, for more
of them to be what it lacks. Below, the input is not parallel enough, or waits itself."""

SAMPLES = 5
"""Samples of a phase, each good to a tenth of a core, from which its mean is used."""

MOSTLY = 0.50
"""Share of a step's CPU time that must be the input's."""


class InstanceCores(Fix):
    """Take an instance with more cores for the same GPU.

    Why slow: AWS sells one GPU with 4 to 64 vCPUs. Decoding and augmenting take the time of cores.
    Where all are busy and the GPU still waits, neither workers nor `num_parallel_calls` help any
    more.
    Changes: The same script on a larger instance. How many cores it needs is measured: the CPU
    time of a step over the time the GPU takes for it. That input work spreads evenly over cores is
    assumed, and that a vCPU there (a hyperthread) does what one does here.
    When not:
    - First make the input cheaper: decode once, cache, smaller images, decode on the GPU.
    - Where the larger instance costs more than it is faster, an epoch is done sooner, not cheaper.
    - In a container that may use only some of the cores, lift that limit first.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find an input that keeps every core busy while the GPU waits for it."""
        instance, job, taken = evidence.machine.instance, evidence.parallel_, evidence.times
        own = None if instance is None else instance.type
        if instance is None or own is None or not own.gpus or evidence.device.kind != "GPU":
            return None
        # what one of several processes uses is not the whole demand
        several = (job is not None and job.expected > 1) or instance.hosts > 1
        if several or (1 if job is None else job.replicas) < own.gpus:
            return None
        # in the real phase buffers are in their steady state
        busy, alone = _busy(evidence, "real"), _busy(evidence, "input")
        work_s, cores = busy * taken.real, evidence.machine.cores
        share = min(1.0, alone * taken.input / work_s) if work_s else 0.0
        kinds = _larger(instance.service, own)
        if cores < WHOLE * own.vcpus or min(busy, alone) < BUSY * cores:
            return None
        if share < MOSTLY or not kinds:
            return None
        needed = work_s / taken.resident
        best = next((kind for kind in kinds if kind.vcpus >= needed), kinds[-1])
        gives = min(taken.real / max(taken.resident, work_s / best.vcpus), best.vcpus / cores)
        return Cause(
            title=f"{instance.name} has {own.vcpus} vCPUs; keeping the {own.gpu} busy takes "
            f"{needed:.0f}",
            text=f"A step takes {ms(work_s)} of CPU time, {percent(share)} of it for the input, "
            f"and {ms(taken.resident)} when its batch is there. {busy:.1f} of {own.vcpus} vCPUs "
            f"are busy. {best.name} has {best.vcpus}: at most {times(gives)} the "
            f"throughput, if the work spreads evenly over cores.",
            saves=Saving(
                f"at most: CPU time of a step spread evenly over the {best.vcpus} vCPUs of "
                f"{best.name}",
                ratio=gives,
                of="input",
            ),
            advice="First make the input cheaper (cache, decode once, smaller images). Then take "
            f"{best.name}.",
            snippet=f"# {ML}{best.name} in SageMaker\n"
            "aws ec2 modify-instance-attribute --instance-id STOPPED_INSTANCE "
            f"--instance-type Value={best.name}",
        )


def _busy(evidence: Evidence, phase: str) -> float:
    use = evidence.phase(phase)
    if use.cpu_cores is None or use.samples < SAMPLES:
        raise NotMeasured(f"the cores busy in phase {phase} were not sampled often enough")
    return use.cpu_cores


# ---------------------------------------------------------------------------------- types

ML = "ml."
"""The prefix of EC2 types in SageMaker."""


def instance_type(name: str) -> InstanceType | None:
    """Return the type that EC2 or SageMaker calls `name`, None if it is not in the table."""
    name = name.removeprefix(ML)
    row = _table()["ec2"].get(name)
    if row is None:
        return None
    gpus = row["gpus"]
    model = gpus[0]["model"] if gpus else ""
    return InstanceType(
        name=name,
        vcpus=row["vcpus"],
        memory=int(row["mem_gib"] * GIB),
        gpus=sum(gpu["count"] for gpu in gpus),
        gpu=f"a part of an {model}" if gpus and not gpus[0]["count"] else model,
        gpu_memory=gpus[0]["mem_mib"] * MIB if gpus else None,
        ebs_bytes_s=row["ebs_base_MBps"] * MB,
        nvme_bytes=row["nvme_gb"] * GB,
    )


def _larger(service: str, own: InstanceType) -> list[InstanceType]:
    """The types a service offers with as many of the same GPU and more cores, smallest first."""
    offered = _table()["ec2"] if service == "ec2" else _table()["ml_training"].values()
    kinds = {kind for name in offered if name and (kind := instance_type(name)) is not None}
    gpus = (own.gpu, own.gpus, own.gpu_memory)
    alike = [kind for kind in kinds if (kind.gpu, kind.gpus, kind.gpu_memory) == gpus]
    larger = (kind for kind in alike if kind.vcpus > own.vcpus)
    return sorted(larger, key=lambda kind: (kind.vcpus, kind.memory, kind.name))


@cache
def _table() -> dict[str, Any]:
    text = files("trainperf").joinpath("data/aws_gpu_instances.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
