"""A training job that diagnoses a script: its request, its start, and its results."""

from __future__ import annotations

import datetime
import importlib.resources
import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trainperf.errors import ScriptFailed, TrainperfError
from trainperf.model.words import count
from trainperf.sagemaker import service
from trainperf.sagemaker.packing import Packed
from trainperf.sagemaker.service import Service

CHANNEL = "trainperf"
"""The input channel by which the source comes into the container."""

FOLDER = f"/opt/ml/input/data/{CHANNEL}"
START = "start.py"

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
    input_mode: str = "File"
    max_runtime_s: int = 3600
    volume_gb: int = 30
    torchrun: bool = False

    @property
    def source(self) -> str:
        """The `s3://` folder that the source is uploaded to."""
        return f"{self.output}/{self.name}/source"


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


def _channel(name: str, uri: str, mode: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3DataDistributionType": "FullyReplicated", "S3Uri": uri}
    return {"ChannelName": name, "InputMode": mode, "DataSource": {"S3DataSource": source}}


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


# From a script to a job, and from its end to its results.

Say = Callable[[str], None]

_EXPECTED = re.compile(
    r"(?:[\w.-]+/)?trainperf/"
    r"(diagnosis\.json|fixes\.patch|exit-[\w-]+\.json|job/rank-\d+/(?:rank|recording)\.json)"
)
"""The only members that are unpacked; of several hosts each may have a folder of its own."""


def installed_by(given: str | None, version: str) -> tuple[str, Path | None]:
    """The requirement for pip, and the wheel to upload; raises `TrainperfError` if it is none."""
    if given is None or not given.endswith(".whl"):
        return given or f"trainperf=={version}", None
    path = Path(given)
    if not path.is_file():
        raise TrainperfError(f"--trainperf {given}: there is no such wheel", "check the path")
    return path.name, path


def submit(
    made: Service, job: Job, packed: Packed, installed: tuple[str, Path | None], say: Say
) -> None:
    """Upload the source and start the job. Raises `TrainperfError` where AWS refuses."""
    install, wheel = installed
    plan = {"script": job.script, "arguments": job.arguments, "torchrun": job.torchrun}
    plan["install"] = install
    files = {
        "plan.json": json.dumps(plan).encode(),
        "source.tar.gz": packed.data,
        START: importlib.resources.files("trainperf.sagemaker").joinpath(START).read_bytes(),
    }
    if wheel is not None:
        files[wheel.name] = wheel.read_bytes()
    say(f"uploading {count(packed.files, 'file')} to {job.source}")
    service.upload(made, job.source, files)
    try:
        service.create(made, request(job))
    except KeyboardInterrupt:
        say(f"the job {job.name} may have been started, and would cost money")
        say(how_to_stop(made, job.name))
        raise
    say(f"started the training job {job.name} in {made.region}")


def how_to_stop(made: Service, name: str) -> str:
    """The command that stops a job."""
    command = f"aws sagemaker stop-training-job --training-job-name {name}"
    return f"stop it: {command} --region {made.region}"


def collect(made: Service, name: str, folder: Path, say: Say, poll_s: float) -> Path:
    """Wait for the job, fetch its output into `folder` and unpack it; return as `unpack` does.

    Raises `ScriptFailed` where the job failed and left no report, with the reason that
    SageMaker gives, `TrainperfError` where it was stopped or its output cannot be had.
    """
    told = service.follow(made, name, say, poll_s)
    status, reason = told["TrainingJobStatus"], str(told.get("FailureReason") or "")
    text = f"the training job {name} {status.lower()}{f': {reason}' if reason else ''}"
    output = f"{told['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{name}/output/output.tar.gz"
    archive = folder / "output.tar.gz"
    logs = f"look at {service.LOGS} in CloudWatch, {name}/…"
    try:
        if not service.download(made, output, archive):
            raise TrainperfError(f"the training job {name} left no output", logs)
        found = unpack(archive, folder, output)
    except TrainperfError as error:
        if status == "Failed":
            raise ScriptFailed(text, logs) from error
        if status == "Stopped":
            raise TrainperfError(text, "raise --max-runtime, if it ran for that long") from error
        raise
    if status != "Completed":
        say(text)
    archive.unlink()
    return found


def unpack(archive: Path, folder: Path, origin: str = "") -> Path:
    """Unpack the expected members of `archive` into `folder`; everything else stays in it.

    Return the file of the report, or the folder of the records of ranks. No path of the archive is
    used: names are matched whole, links and devices refused. `origin` is where it came from and
    stays, for the reader of an error. Raises `TrainperfError` where it is no archive, or holds no
    report.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                match = _EXPECTED.fullmatch(member.name.removeprefix("./"))
                data = tar.extractfile(member) if match and member.isfile() else None
                if match and data:
                    target = folder / match[1]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with data, target.open("wb") as file:
                        shutil.copyfileobj(data, file)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise TrainperfError(
            f"the output of the job cannot be unpacked: {error}", f"look into {origin or archive}"
        ) from error
    for found in (folder / "diagnosis.json", folder / "job"):
        if found.exists():
            return found
    raise TrainperfError(
        "the output of the job holds no report", "its log says why: see CloudWatch"
    )
