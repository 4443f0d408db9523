"""Shared by the fixes that advise another AWS instance: this one, and its siblings."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import times
from trainperf.model import Evidence, Instance, InstanceType

WHOLE = 0.90
"""Share of an instance's vCPUs that the script may use, from which the instance is its limit
and not the container that it runs in."""


def here(evidence: Evidence) -> tuple[Instance, InstanceType]:
    """Return the instance and its type; raises `NotMeasured` where no advice can be given.

    The type must be known and have GPUs, and one process must train on all of them:
    what one of several processes uses is not the whole demand.
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


def has_all_cores(evidence: Evidence, kind: InstanceType) -> bool:
    """Say whether the script may use (nearly) all vCPUs of the instance."""
    return evidence.machine.cores >= WHOLE * kind.vcpus


def price_said(evidence: Evidence, name: str) -> str:
    """Say what type `name` costs against this one; where prices are not known, say that."""
    instance = evidence.machine.instance
    ratio = None if instance is None else instance.price_ratio(name)
    if ratio is None:
        return "at a price to be looked up"
    return f"for {times(ratio)} the price (on demand, {instance.region if instance else ''})"


def change_said(instance: Instance, name: str) -> str:
    """Return how to move to type `name`, to paste."""
    if instance.service == "sagemaker":
        return f'instance_type = "{name}"  # of the training job'
    return (
        "# while the instance is stopped\n"
        "aws ec2 modify-instance-attribute --instance-id INSTANCE"
        f" --instance-type Value={name}"
    )
