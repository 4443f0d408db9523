"""The checks of where the machine comes from: instance, price, container."""

from __future__ import annotations

from trainperf.machine.aws.instance import NOT_AWS
from trainperf.machine.doctor.checkup import Check
from trainperf.model import InstanceType, Machine
from trainperf.model.words import size

GIGABIT = 1e9 / 8

_KINDS = {
    "sagemaker": "SageMaker",
    "kubernetes": "Kubernetes",
    "ecs": "Amazon ECS",
    "podman": "Podman",
    "docker": "Docker",
    "lxc": "LXC",
}


def check_instance(machine: Machine) -> tuple[Check, ...]:
    """Say which AWS instance this is, what it offers and what it costs."""
    instance = machine.instance
    if instance is None:
        return _no_instance(machine.instance_reason)
    where = instance.zone or instance.region or "region not known"
    source = f"told by {instance.source}" if instance.source else ""
    if instance.type is None:
        text = f"{instance.name}, {where}: what it offers is not known"
        return (Check("AWS instance", "unknown", text), *_price(machine))
    text = f"{instance.name}, {where}: {offers(instance.type)}"
    return (_seen(machine, instance.type, text, source), *_price(machine))


def _no_instance(reason: str) -> tuple[Check, ...]:
    if not reason:  # it was not looked at
        return ()
    text = f"{reason[:1].upper()}{reason[1:]}"
    return (Check("AWS instance", "ok" if reason.startswith(NOT_AWS) else "unknown", text),)


def _seen(machine: Machine, kind: InstanceType, text: str, source: str) -> Check:
    """Compare the GPUs of the type with those that the driver shows."""
    seen = len(machine.gpus)
    told = f"{text} ({source})" if source else text
    if 0 < seen < kind.gpus:
        return Check(
            "AWS instance",
            "warning",
            f"{told}; {seen} of its {kind.gpus} GPUs can be seen here",
            "give the container all of them, or take a smaller instance",
        )
    return Check("AWS instance", "ok", told)


def offers(kind: InstanceType) -> str:
    """Say what a type offers: "4 vCPUs, 16.0 GiB, 1 × A10G, network 2.5 Gbit/s …"."""
    told = [f"{kind.vcpus} vCPUs", size(kind.memory)]
    if kind.gpus:
        told.append(f"{kind.gpus} × {kind.gpu}")
    elif kind.gpu:
        told.append(kind.gpu)
    network = _rate(kind.network_bytes_s, kind.network_burst_bytes_s, GIGABIT, "Gbit/s")
    disk = _rate(kind.ebs_bytes_s, kind.ebs_burst_bytes_s, 1e6, "MB/s")
    told += [f"network {network}"] if network else []
    told += [f"EBS {disk}"] if disk else []
    told.append(f"{kind.nvme_bytes / 1e9:,.0f} GB local NVMe" if kind.nvme_bytes else "no NVMe")
    return ", ".join(told)


def _rate(lasts: float | None, most: float | None, unit: float, name: str) -> str:
    """Say what lasts, and what is reached for a while where that is more."""
    if lasts is None:
        return "" if most is None else f"up to {most / unit:g} {name}"
    burst = f" (up to {most / unit:g} for a while)" if most is not None and most > lasts else ""
    return f"{lasts / unit:g} {name}{burst}"


def _price(machine: Machine) -> tuple[Check, ...]:
    if machine.price is not None:
        price = machine.price
        return (Check("Price", "ok", f"${price.per_hour:.4g} an hour ({price.source})"),)
    return (
        Check(
            "Price",
            "unknown",
            f"not known: {machine.price_reason or 'not asked'}",
            "to see costs, give it: trainperf diagnose --price-per-hour DOLLARS …",
        ),
    )


def check_container(machine: Machine) -> tuple[Check, ...]:
    """Name the container, if this is one."""
    kind = machine.container
    return (Check("Container", "ok", _KINDS.get(kind, kind)),) if kind else ()
