"""The AWS instance a script runs on: what it offers, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class InstanceType:
    """An instance type of AWS ("g5.xlarge"); None where a value is not known.

    `memory` and `gpu_memory` (of each GPU) are bytes. `ebs_bytes_s` is the baseline for all
    volumes together, `nvme_bytes` the local instance store, 0 if it has none.
    """

    name: str
    vcpus: int
    memory: int
    gpus: int = 0
    gpu: str = ""
    gpu_memory: int | None = None
    ebs_bytes_s: float | None = None
    nvme_bytes: int = 0


@dataclass(frozen=True)
class Instance:
    """The instance this is, as AWS names it to those who run on it.

    `name` is as told ("ml.g5.xlarge" in SageMaker); `type` is None for one that the package
    data does not describe. `hosts` is how many of them the job has. `source`
    says who told ("SageMaker's resourceconfig.json", "instance metadata").
    """

    service: Literal["ec2", "sagemaker"]
    name: str
    type: InstanceType | None = None
    region: str | None = None
    zone: str | None = None
    hosts: int = 1
    source: str = ""


@dataclass(frozen=True)
class Price:
    """The price of the machine: US dollars an hour for one host, and who says so."""

    per_hour: float
    source: str  # "--price-per-hour"


@dataclass(frozen=True)
class Cost:
    """The cost of training here, from the price and the times that were measured.

    US dollars, all hosts together. An epoch is its steps and what passes between two;
    None where the length of an epoch is not known: then a million samples are steps alone.
    `after` is with the kept fixes.
    """

    price: Price
    hosts: int
    million_samples_before: float | None = None
    million_samples_after: float | None = None
    epoch_before: float | None = None
    epoch_after: float | None = None
