"""From a script to a job, and from its end to its results."""

from __future__ import annotations

import importlib.resources
import json
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

from trainperf.errors import ScriptFailed, TrainperfError
from trainperf.model.words import count
from trainperf.sagemaker import service
from trainperf.sagemaker.job import START, Job, request
from trainperf.sagemaker.packing import Packed
from trainperf.sagemaker.service import Service

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
    """Upload the source and start the job. Raises `TrainperfError` where AWS refuses.

    `installed` is what `installed_by` says.
    """
    install, wheel = installed
    plan = {
        "script": job.script,
        "arguments": list(job.arguments),
        "install": install,
        "torchrun": job.torchrun,
    }
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
    status, reason = service.follow(made, name, say, poll_s)
    text = f"the training job {name} {status.lower()}{f': {reason}' if reason else ''}"
    archive, output = folder / "output.tar.gz", service.output_of(made, name)
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
