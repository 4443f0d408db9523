"""A training job that diagnoses a script: what it is made of, and the request for it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from trainperf.errors import TrainperfError

CHANNEL = "trainperf"
"""The input channel by which the source comes into the container."""

FOLDER = f"/opt/ml/input/data/{CHANNEL}"
START = "start.py"

Mode = Literal["File", "FastFile", "Pipe"]

_ROLE = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):role/[\w+=,.@/-]+")
_CHANNEL = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Job:
    """The request for a training job. `output` is an `s3://` folder without a "/" at its end.

    `max_runtime_s` is when SageMaker stops the job, seconds; `volume_gb` the disk it
    attaches. `script` is relative to the source folder, in POSIX form.
    """

    name: str
    script: str
    arguments: tuple[str, ...]
    instance_type: str
    role: str
    image: str
    output: str
    instance_count: int = 1
    inputs: tuple[tuple[str, str], ...] = ()
    input_mode: Mode = "File"
    max_runtime_s: int = 3600
    volume_gb: int = 30
    torchrun: bool = False

    @property
    def source(self) -> str:
        """The `s3://` folder that the source is uploaded to."""
        return f"{self.output}/{self.name}/source"

    @property
    def results(self) -> str:
        """The archive into which SageMaker packs `/opt/ml/output/data`."""
        return f"{self.output}/{self.name}/output/output.tar.gz"


def request(job: Job) -> dict[str, Any]:
    """The request of `CreateTrainingJob`, by the names of its API."""
    return {
        "TrainingJobName": job.name,
        "RoleArn": job.role,
        "AlgorithmSpecification": {
            "TrainingImage": job.image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3", f"{FOLDER}/{START}"],
        },
        "InputDataConfig": [
            _channel(CHANNEL, f"{job.source}/", "File"),
            *(_channel(name, uri, job.input_mode) for name, uri in job.inputs),
        ],
        "OutputDataConfig": {"S3OutputPath": job.output},
        "ResourceConfig": {
            "InstanceType": job.instance_type,
            "InstanceCount": job.instance_count,
            "VolumeSizeInGB": job.volume_gb,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": job.max_runtime_s},
    }


def _channel(name: str, uri: str, mode: Mode) -> dict[str, Any]:
    return {
        "ChannelName": name,
        "InputMode": mode,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": uri,
                "S3DataDistributionType": "FullyReplicated",
            }
        },
    }


def named(script: str, now: datetime.datetime) -> str:
    """A name for the job: "trainperf-train-20261121-203514-123"; at most 63 characters."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", PurePosixPath(script).stem).strip("-")[:30].strip("-")
    stamp = f"{now.strftime('%Y%m%d-%H%M%S')}-{now.microsecond // 1000:03}"
    return "-".join(filter(None, ("trainperf", stem, stamp)))


def channels(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Read the `--input` options; raises `TrainperfError` for a name that cannot be."""
    found: dict[str, str] = {}
    for text in given:
        name, _, uri = text.partition("=")
        if not uri:
            raise TrainperfError(
                f"--input {text}: NAME=VALUE is wanted", "such as train=s3://bucket/train"
            )
        if not _CHANNEL.fullmatch(name) or name == CHANNEL or name in found:
            hint = "letters, digits, dot, dash and underscore, other than `trainperf`, each once"
            raise TrainperfError(f"--input: {name!r} cannot name a channel", hint)
        found[name] = uri
    return tuple(found.items())


def default_output(role: str, region: str) -> str:
    """The folder in the account's usual SageMaker bucket, by the account of the role."""
    match = _ROLE.fullmatch(role)
    if match is None:
        raise TrainperfError(
            f"{role!r} is not the ARN of a role", "such as arn:aws:iam::123456789012:role/Name"
        )
    return f"s3://sagemaker-{region}-{match[1]}/trainperf"
