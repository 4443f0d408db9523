"""Advice to take another AWS instance with the same GPU: more cores, memory or bandwidth."""

from __future__ import annotations

from collections.abc import Callable

from trainperf.errors import NotMeasured
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common._environment import EnvironmentFix
from trainperf.fixes.common.words import GB, GIB, MB, ms, percent, times
from trainperf.fixes.host._instance_types import same_gpus
from trainperf.fixes.host.limits import suffering, waiting_for_memory
from trainperf.model import Evidence, Instance, InstanceType
from trainperf.recording.machine.storage import VolumeKind

WHOLE = 0.90
"""Share of an instance's vCPUs or memory that the script may use, from which the instance is its
limit and not the container that it runs in."""


def here(evidence: Evidence) -> tuple[Instance, InstanceType]:
    """Return the instance and its type; raises `NotMeasured` where no advice can be given.

    The type must be known and have GPUs, and one process must train on all of them: what one of
    several processes uses is not the whole demand.
    """
    instance = evidence.machine.instance
    if instance is None or instance.type is None or not instance.type.gpus:
        raise NotMeasured("it is not known to run on an AWS instance with GPUs")
    job = evidence.parallel_
    if (job is not None and job.expected > 1) or instance.hosts > 1:
        raise NotMeasured("several processes train, of which one was sampled")
    used = 1 if job is None else job.replicas
    if evidence.device.kind != "GPU" or used < instance.type.gpus:
        raise NotMeasured("the script does not train on all GPUs of the instance")
    return instance, instance.type


def price(instance: Instance, name: str) -> str:
    """Say what type `name` costs against this one; where prices are not known, say that."""
    ratio = instance.price_ratio(name)
    if ratio is None:
        return "at a price to be looked up"
    return f"for {times(ratio)} the price (on demand, {instance.region})"


def change(instance: Instance, name: str) -> str:
    """Return how to move to type `name`, to paste."""
    if instance.service == "sagemaker":
        return f'instance_type = "{name}"  # of the training job'
    return (
        "# while the instance is stopped\n"
        "aws ec2 modify-instance-attribute --instance-id INSTANCE"
        f" --instance-type Value={name}"
    )


BUSY = 0.85
"""Share of the cores that the script must keep busy, with and without the model, for more
of them to be what it lacks. Below, the input is not parallel enough, or waits itself."""

SAMPLES = 5
"""Samples of a phase, each good to a tenth of a core, from which its mean is used."""

MOSTLY = 0.50
"""Share of a step's CPU time that must be the input's."""


class InstanceCores(EnvironmentFix):
    """Take an instance with more cores for the same GPU.

    ## Why it is slow
    AWS sells one GPU with 4 to 64 vCPUs. Decoding and augmenting take the time of cores. Where
    all are busy and the GPU still waits, neither workers nor `num_parallel_calls` help any more.

    ## What changes
    The same script on a larger instance. How many cores it needs is measured: the CPU time of a
    step over the time the GPU takes for it. That input work spreads evenly over cores is assumed,
    and that a vCPU there (a hyperthread) does what one does here.

    ## When not to
    - First make the input cheaper: decode once, cache, smaller images, decode on the GPU.
    - Where the larger instance costs more than it is faster, an epoch is done sooner, not
      cheaper.
    - In a container that may use only some of the cores, lift that limit first.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find an input that keeps every core busy while the GPU waits for it."""
        instance, own = here(evidence)
        cores, real, resident = evidence.machine.cores, evidence.times.real, evidence.times.resident
        # in the real phase buffers are in their steady state
        busy, alone = _busy(evidence, "real"), _busy(evidence, "input")
        if cores < WHOLE * own.vcpus or min(busy, alone) < BUSY * cores:
            return None
        work_s = busy * real
        share = min(1.0, alone * evidence.times.input / work_s)
        kinds = [kind for kind in same_gpus(instance) if kind.vcpus > own.vcpus]
        if share < MOSTLY or not kinds:
            return None
        needed = work_s / resident
        best = next((kind for kind in kinds if kind.vcpus >= needed), kinds[-1])
        gives = min(real / max(resident, work_s / best.vcpus), best.vcpus / cores)
        costs = price(instance, best.name)
        return Cause(
            title=f"{instance.name} has {own.vcpus} vCPUs; keeping the {own.gpu} busy takes "
            f"{needed:.0f}",
            text=f"A step takes {ms(work_s)} of CPU time, {percent(share)} of it for the input, "
            f"and {ms(resident)} when its batch is there. {busy:.1f} of {own.vcpus} vCPUs are "
            f"busy. {best.name} has {best.vcpus}: at most {times(gives)} the throughput, {costs}. "
            "This assumes that the work spreads evenly over cores.",
            saves=Saving(
                f"at most: CPU time of a step spread evenly over the {best.vcpus} vCPUs of "
                f"{best.name}",
                ratio=gives,
                of="input",
            ),
            advice="First make the input cheaper (cache, decode once, smaller images). Then take "
            f"{best.name}, {costs}.",
            snippet=change(instance, best.name),
        )


def _busy(evidence: Evidence, phase: str) -> float:
    use = evidence.phase(phase)
    if use.cpu_cores is None or use.samples < SAMPLES:
        raise NotMeasured(f"the cores busy in phase {phase} were not sampled often enough")
    return use.cpu_cores


LARGE_PART = 0.80
"""Share of the instance's memory that the peak must reach: the system itself takes a part."""

ROOM = 1.25
"""How many times the peak the other type's memory must be: what was cut off would have grown."""


class InstanceMemory(EnvironmentFix):
    """Take an instance with more memory for the same GPU.

    ## Why it is slow
    Near the end of its memory the kernel takes pages away that are needed again, swaps, and at
    last ends a process. AWS sells one GPU with 16 to 256 GiB.

    ## What changes
    The same script on a larger instance with the same GPU. What it needs is at least the peak
    that was measured, which the memory there may have cut off.

    ## When not to
    First hold less: fewer loader workers, smaller buffers and caches. In a container that may use
    only a part of the memory, lift that limit first.
    """

    category = "memory"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a job that suffers from a shortage of the whole instance's memory."""
        use = evidence.container
        instance, own = here(evidence)
        peak = None if use is None else use.memory_peak
        if use is None or peak is None or not (signs := suffering(use)):
            return None
        if evidence.machine.memory_limit < WHOLE * own.memory or peak < LARGE_PART * own.memory:
            return None
        better = next((kind for kind in same_gpus(instance) if kind.memory >= ROOM * peak), None)
        if better is None:
            return None
        return Cause(
            title=f"{instance.name} has too little memory for the job",
            text=f"{' '.join(signs)} The job used {peak / GIB:.1f} GiB at most, {instance.name} "
            f"has {own.memory / GIB:.0f}; {better.name} has {better.memory / GIB:.0f}.",
            saves=waiting_for_memory(evidence, use),
            advice="First hold less in memory: fewer loader workers, smaller buffers and caches. "
            f"Then take {better.name}, {price(instance, better.name)}.",
            snippet=change(instance, better.name),
        )


AT_LIMIT = (0.80, 1.15)
"""Between these shares of what lasts and of what is reached for a while, a rate that was
measured is the instance's limit. Below it is the volume's, or the reader's own."""

SHORT = 1.10
"""How many times the rate reached the step must need."""

Flow = tuple[str, float, float]
"""What is read, the rate that it reached and the one that the step needs, bytes per second."""

Limit = Callable[[InstanceType], tuple[float | None, float | None]]
"""The rates at which a type can read, bytes per second: lasting, and in bursts."""


def _shortage(
    evidence: Evidence, flow: Flow | None, limit: Limit, link: str, disk: str
) -> Cause | None:
    """Find a flow that the step waits for at the limit of the instance, and the type to take.

    None where the data of an epoch fits into memory: then only the first one waits. `link` names
    what is limited, `disk` where the data had better lie.
    """
    instance, own = here(evidence)
    lasts, most = limit(own)
    if flow is None or lasts is None:
        return None
    what, reached, needed = flow
    low, high = AT_LIMIT
    if not low * lasts <= reached <= high * max(lasts, most or 0.0) or needed < SHORT * reached:
        return None
    more = [(limit(kind)[0] or 0.0, kind) for kind in same_gpus(instance)]
    more = [(rate, kind) for rate, kind in more if rate > max(lasts, reached)]
    step_bytes = needed * evidence.times.resident
    if not more or _stays_in_memory(evidence, step_bytes):
        return None
    fastest = max(more, key=lambda offer: offer[0])
    rate, better = next((offer for offer in more if offer[0] >= needed), fastest)
    burst = ", in a burst that ends" if reached > high * lasts else ""
    first = f"Copy the data to {disk} if it fits. Else take" if disk else "Take"
    return Cause(
        title=f"The {link} of {instance.name} is less than the training reads",
        text=f"{what} were read at {_rate(reached)}{burst}; {instance.name} has {_rate(lasts)} of "
        f"{link} that last. To keep the {own.gpu} busy the step needs {_rate(needed)}; "
        f"{better.name} has {_rate(rate)}.",
        saves=Saving(
            f"at most: the data read as fast as the {link} of {better.name} lasts, and given as "
            "fast where it lies",
            step_bytes / reached - step_bytes / min(rate, needed),
            of="input",
        ),
        advice=f"{first} {better.name}, {price(instance, better.name)}.",
        snippet=change(instance, better.name),
    )


def _files_on(evidence: Evidence, kinds: tuple[VolumeKind, ...]) -> Flow | None:
    """Return what is read from volumes of these kinds, None where that was not measured.

    The rate reached is the best of files that the kernel had dropped from memory, on the
    volume that the step needs most from.
    """
    found = [(reads.needed_bytes_s or 0.0, reads) for reads in evidence.reads]
    found = [(needed, reads) for needed, reads in found if needed and reads.volume.kind in kinds]
    _, most = max(found, key=lambda pair: pair[0], default=(0.0, None))
    if most is None or not most.best_cold_bytes_s:
        return None
    what = f"Files on {most.volume.mount} that were not in memory"
    return what, most.best_cold_bytes_s, sum(needed for needed, _ in found)


def _objects(evidence: Evidence) -> Flow | None:
    """Return what is read from S3, None where that was not measured.

    The rate reached is the best that the probe saw at any number of requests at once.
    """
    found = [
        ((objects.requests_per_step or 0.0) * (objects.mean_object_bytes or 0.0), objects)
        for objects in evidence.objects
    ]
    step_bytes, most = max(found, key=lambda pair: pair[0], default=(0.0, None))
    reached = max((rate for _, rate in most.throughput), default=0.0) if most else 0.0
    if most is None or not step_bytes or not reached:
        return None
    needed = sum(size for size, _ in found) / evidence.times.resident
    return f"Objects of {most.bucket}", reached, needed


def _stays_in_memory(evidence: Evidence, step_bytes: float) -> bool:
    """Whether an epoch's data fits into free memory, and is read more than once."""
    steps = evidence.loop.epoch_steps
    if not steps or evidence.loop.epochs == 1:
        return False
    return step_bytes * steps < evidence.machine.memory_available


def _rate(value: float) -> str:
    """Say a rate as AWS does: "87.5 MB/s"."""
    return f"{value / MB:,.3g} MB/s" if value < 1000 * MB else f"{value / MB:,.0f} MB/s"


class InstanceNetwork(EnvironmentFix):
    """Take an instance with more network bandwidth for the same GPU.

    ## Why it is slow
    S3, EFS and FSx are reached over the network. Small GPU instances have 2.5 to 5 Gbit/s that
    last, whatever "up to" they are sold with: the rest is a burst of 5 to 60 minutes.

    ## What changes
    The same script on a larger instance with the same GPU. What the step needs is measured: the
    bytes it reads over the time it takes when its batch is there.

    ## When not to
    When the data fits on the instance's own disk (copy it once) or into memory (only the first
    epoch reads it), or smaller files would do: compressed records, smaller images.
    """

    category = "storage"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find data that comes over the network at the limit of the instance."""
        files = _files_on(evidence, ("efs", "nfs", "lustre", "s3 mount", "network"))
        flows = [flow for flow in (files, _objects(evidence)) if flow]
        return _shortage(
            evidence,
            max(flows, key=lambda flow: flow[2], default=None),
            lambda kind: (kind.network_bytes_s, kind.network_burst_bytes_s),
            "network bandwidth",
            "a local disk",
        )


class InstanceStorage(EnvironmentFix):
    """Take an instance with more EBS bandwidth for the same GPU.

    ## Why it is slow
    Besides the limit of each EBS volume, an instance has one for all together. Small GPU
    instances have about 100 MB/s that last, and a burst of half an hour a day beyond. A faster
    volume does not help there.

    ## What changes
    The same script on a larger instance with the same GPU. What the step needs is measured: the
    bytes it reads over the time it takes when its batch is there. That the volume can give as
    much is assumed.

    ## When not to
    When the data fits on the instance's own NVMe disk (copy it once) or into memory (only the
    first epoch reads it), or smaller files would do: compressed records, smaller images.
    """

    category = "storage"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find files on EBS that are read at the limit of the instance, and needed faster."""
        _, own = here(evidence)
        return _shortage(
            evidence,
            _files_on(evidence, ("ebs",)),
            lambda kind: (kind.ebs_bytes_s, kind.ebs_burst_bytes_s),
            "EBS bandwidth",
            f"the local NVMe ({own.nvme_bytes / GB:,.0f} GB)" if own.nvme_bytes else "",
        )
