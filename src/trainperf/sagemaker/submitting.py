"""From a script to a job, and from its end to its results."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainperf.errors import ScriptFailed, TrainperfError
from trainperf.sagemaker import service
from trainperf.sagemaker.job import START, Job, plan
from trainperf.sagemaker.job import request as request_of
from trainperf.sagemaker.packing import Packed
from trainperf.sagemaker.results import Results, has_report, unpack
from trainperf.sagemaker.service import Service

Say = Callable[[str], None]


@dataclass(frozen=True)
class Upload:
    """The upload: the packed source, and what installs trainperf.

    `install` is what pip gets; where it is a wheel of the user's, `wheel` is the file.
    """

    packed: Packed
    install: str
    wheel: Path | None = None


def installed_by(given: str | None, version: str) -> tuple[str, Path | None]:
    """What pip is to install, and the wheel to upload; raises `TrainperfError` if it is none."""
    if given is None:
        return f"trainperf=={version}", None
    path = Path(given)
    if path.suffix == ".whl" or path.exists():
        if not path.is_file() or path.suffix != ".whl":
            raise TrainperfError(f"--trainperf {given}: there is no such wheel", "check the path")
        return path.name, path
    return given, None


def submit(made: Service, job: Job, brought: Upload, say: Say) -> None:
    """Upload the source and start the job. Raises `TrainperfError` where AWS refuses."""
    start = importlib.resources.files("trainperf.sagemaker").joinpath(START).read_bytes()
    files = {
        "plan.json": json.dumps(plan(job, brought.install)).encode(),
        "source.tar.gz": brought.packed.data,
        START: start,
    }
    if brought.wheel is not None:
        files[brought.wheel.name] = brought.wheel.read_bytes()
    many = brought.packed.files
    say(f"uploading {many} file{'' if many == 1 else 's'} to {job.source}")
    service.upload(made, job.source, files)
    try:
        service.create(made, request_of(job))
    except KeyboardInterrupt:
        say(
            f"the job {job.name} may have been started, and would cost money: "
            f"aws sagemaker stop-training-job --training-job-name {job.name} "
            f"--region {made.region}"
        )
        raise
    say(f"started the training job {job.name} in {made.region}")


def collect(made: Service, name: str, folder: Path, say: Say, poll_s: float) -> Results:
    """Wait for the job, fetch its output into `folder` and unpack it.

    Raises `ScriptFailed` where the job failed and left no report, with the reason that
    SageMaker gives, `TrainperfError` where it was stopped or its output cannot be had.
    """
    ended = service.follow(made, name, say, poll_s)
    if ended.billable_s is not None:
        say(f"{name}: {ended.billable_s} s are billed for each instance")
    archive = folder / "output.tar.gz"
    output = service.output_of(made, name)
    there = service.download(made, output, archive)
    if ended.status != "Completed":
        reason = f": {ended.reason}" if ended.reason else ""
        text = f"the training job {name} {ended.status.lower()}{reason}"
        if ended.status == "Failed" and not (there and has_report(archive)):
            raise ScriptFailed(text, f"its log is in CloudWatch, {service.LOGS}, {name}/…")
        if not there:
            raise TrainperfError(text, "raise --max-runtime, if that is what stopped it")
        say(text)
    if not there:
        raise TrainperfError(
            f"the training job {name} left no output", f"look at {service.LOGS} in CloudWatch"
        )
    results = unpack(archive, folder, output)
    archive.unlink()
    return results
