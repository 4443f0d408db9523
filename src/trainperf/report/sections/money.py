"""The cost of training, and the instance it is for."""

from __future__ import annotations

from trainperf.model import Cost, Diagnosis, Instance, InstanceType, Machine
from trainperf.model import words as units
from trainperf.report.document import END, QUIET, Page, Section, exactly, say


def cost(diagnosis: Diagnosis, page: Page) -> None:
    """Print what an epoch and a million samples cost, before and after the kept changes."""
    machine, known = diagnosis.evidence.machine, diagnosis.cost
    if known is not None:
        page.gap()
        page.prose(costs(known), first=exactly("Cost: ", QUIET))
    elif machine.instance is not None and machine.price is None:
        why = machine.price_reason.rstrip(".") or "no price was asked for"
        page.gap()
        page.prose(say(f"Cost: not known ({why}); --price-per-hour gives it.", QUIET))


def instance(machine: Machine) -> str:
    """Describe the instance in a line, "" off AWS.

    "g5.xlarge (AWS, eu-west-1): 4 vCPUs, 16 GiB, 1 × A10G, network 2.5 Gbit/s".
    """
    known = machine.instance
    if known is None:
        return ""
    what = f": {_offers(known.type)}" if known.type is not None else ", of unknown size"
    many = f"{known.hosts} × " if known.hosts > 1 else ""
    return f"{many}{known.name} ({_service(known)}){what}"


def dollars(value: float) -> str:
    """Write US dollars: "$1.21", "$0.0084", "$1,240"; to two digits at least."""
    if value >= 1000:
        return f"${value:,.0f}"
    if value >= 0.995 or value == 0:
        return f"${value:.2f}"
    return f"${units.number(value, 2)}"


def costs(known: Cost) -> str:
    """Say the price, and what an epoch and a million samples cost, before and after."""
    each = "" if known.hosts == 1 else f" for each of {known.hosts} hosts"
    text = f"{dollars(known.price.per_hour)} an hour{each} ({known.price.source})"
    parts = [
        f"{what} {told}"
        for what, told in (
            ("an epoch", _change(known.epoch_before, known.epoch_after)),
            (
                "a million samples",
                _change(known.million_samples_before, known.million_samples_after),
            ),
        )
        if told
    ]
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."


def _change(before: float | None, after: float | None) -> str:
    if before is None:
        return ""
    return dollars(before) if after is None else f"{dollars(before)} → {dollars(after)}"


def _service(known: Instance) -> str:
    where = known.zone or known.region
    service = "SageMaker" if known.service == "sagemaker" else "AWS"
    return f"{service}, {where}" if where else service


def _offers(kind: InstanceType) -> str:
    told = [units.count(kind.vcpus, "vCPU"), units.size(kind.memory)]
    if kind.gpu:
        told.append(f"{kind.gpus} × {kind.gpu}" if kind.gpus else kind.gpu)
    if kind.network_bytes_s is not None:
        told.append(f"network {kind.network_bytes_s * 8e-9:g} Gbit/s")
    if kind.ebs_bytes_s is not None:
        told.append(f"EBS {kind.ebs_bytes_s * 1e-6:.3g} MB/s")
    return ", ".join(told)


SECTIONS = (Section("money", END + 50, cost, cost, side="machine"),)
