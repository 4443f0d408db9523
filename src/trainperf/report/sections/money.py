"""The cost of training, and the instance it is for."""

from __future__ import annotations

from trainperf.model import Cost, Diagnosis, Machine
from trainperf.model import words as units
from trainperf.report.document import END, QUIET, Page, Section, exactly


def cost(diagnosis: Diagnosis, page: Page) -> None:
    """Print what an epoch and a million samples cost, before and after the kept changes."""
    if diagnosis.cost is not None:
        page.gap()
        page.prose(costs(diagnosis.cost), first=exactly("Cost: ", QUIET))


def instance(machine: Machine) -> str:
    """Describe the instance in a line, "" off AWS.

    "g5.xlarge (AWS, eu-west-1): 4 vCPUs, 16.0 GiB, 1 × A10G".
    """
    known = machine.instance
    if known is None:
        return ""
    service = "SageMaker" if known.service == "sagemaker" else "AWS"
    where = known.zone or known.region
    many = f"{known.hosts} × " if known.hosts > 1 else ""
    text = f"{many}{known.name} ({service}{f', {where}' if where else ''})"
    kind = known.type
    if kind is None:
        return text
    gpus = f", {kind.gpus} × {kind.gpu}" if kind.gpu and kind.gpus else ""
    return f"{text}: {units.count(kind.vcpus, 'vCPU')}, {units.size(kind.memory)}{gpus}"


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
        f"{what} {dollars(before)}" + ("" if after is None else f" → {dollars(after)}")
        for what, before, after in (
            ("an epoch", known.epoch_before, known.epoch_after),
            ("a million samples", known.million_samples_before, known.million_samples_after),
        )
        if before is not None
    ]
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."


SECTIONS = (Section("money", END + 50, cost, cost, side="machine"),)
