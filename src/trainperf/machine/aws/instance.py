"""Which AWS instance this is, and what it costs, without making anybody wait for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from trainperf.fixes.host._instance_types import instance_type
from trainperf.machine.aws import imds, live
from trainperf.machine.aws.dmi import firmware
from trainperf.machine.aws.sagemaker import region, training_instance
from trainperf.model import Instance, Machine, Price

DEADLINE_S = 1.0
"""Seconds after which what is not known by then is not waited for."""

SURE_S, UNSURE_S = 0.8, 0.3
"""Seconds for the metadata service where the firmware names EC2, and where it says nothing."""

NOT_AWS = "not an AWS instance"
OPTION = "--price-per-hour"
NO_PRICE = "AWS's price list did not answer in time"


@dataclass(frozen=True)
class Answer:
    """The instance and its price; the reasons say why either is None."""

    instance: Instance | None = None
    instance_reason: str = ""
    price: Price | None = None
    price_reason: str = ""


class Inquiry:
    """Asks in a thread of its own from the moment it is made."""

    def __init__(self, root: Path, environment: Mapping[str, str], *, network: bool) -> None:
        self._known = Answer(instance_reason=f"not known within {DEADLINE_S:g} s")
        self._until = time.monotonic() + DEADLINE_S
        self._arguments = (root, dict(environment), network)
        self._thread = threading.Thread(target=self._ask, name="trainperf-instance", daemon=True)
        self._thread.start()

    def answer(self) -> Answer:
        """Return what is known; waits until the deadline at most, once."""
        self._thread.join(max(0.0, self._until - time.monotonic()))
        return self._known

    def _ask(self) -> None:
        root, environment, network = self._arguments
        try:
            instance, reason = identify(root, environment, network=network)
        except Exception as error:
            self._known = Answer(instance_reason=f"it could not be told: {type(error).__name__}")
            return
        if instance is None:
            self._known = Answer(None, reason, None, reason)
        elif not network:
            self._known = Answer(instance, "", None, "AWS was not asked")
        else:
            self._known = Answer(instance, "", None, NO_PRICE)
            live.ask(instance, self._tell)

    def _tell(self, instance: Instance, price: Price | None, reason: str) -> None:
        self._known = Answer(instance, "", price, reason)


def identify(
    root: Path, environment: Mapping[str, str], *, network: bool = True
) -> tuple[Instance | None, str]:
    """Return the instance, or None and why: SageMaker's files, metadata service, firmware.

    The firmware decides whether the metadata service is asked at all: elsewhere nothing
    may answer at its address. Without `network` it is not asked.
    """
    if (job := training_instance(root, environment)) is not None:
        return replace(job, type=instance_type(job.name)), ""
    box, given = firmware(root), imds.ENDPOINT in environment
    if box.amazon is False and not given:
        return None, NOT_AWS
    said = imds.Metadata(reason="the instance metadata service was not asked")
    if network:
        said = imds.ask(environment, SURE_S if box.amazon or given else UNSURE_S)
    if name := said.type or box.type:
        return (
            Instance(
                "ec2",
                name,
                instance_type(name),
                said.region or region(environment),
                said.zone,
                source="instance metadata" if said.type else f"firmware; {said.reason}",
            ),
            "",
        )
    if box.amazon:
        return None, f"an EC2 instance of unknown type: {said.reason}"
    return None, f"{NOT_AWS}, as far as can be told: {said.reason}"


def inquiry(root: Path, *, network: bool) -> Inquiry:
    """Return the inquiry of this process about the machine below `root`; it asks but once."""
    names = [name for name in os.environ if name.startswith(("AWS_", "SM_"))]
    return _once(root, tuple(sorted((name, os.environ[name]) for name in names)), network)


@cache
def _once(root: Path, environment: tuple[tuple[str, str], ...], network: bool) -> Inquiry:
    return Inquiry(root, dict(environment), network=network)


def with_price(known: Answer, price_per_hour: float | None) -> Answer:
    """Return `known` with the price that was given, if one was."""
    if price_per_hour is None:
        return known
    return replace(known, price=Price(price_per_hour, OPTION), price_reason="")


def with_late_answers(machine: Machine, root: Path = Path("/")) -> Machine:
    """Return `machine` with what AWS answered since it was inspected; waits for nothing.

    The price list is served from one region: from others it may take longer than the
    inspection waits, and is there when the script has run.
    """
    known = inquiry(root, network=True).answer()
    given = machine.price if machine.price is not None and machine.price.source == OPTION else None
    return replace(
        machine,
        instance=known.instance,
        instance_reason=known.instance_reason,
        price=given or known.price,
        price_reason="" if given else known.price_reason,
    )
