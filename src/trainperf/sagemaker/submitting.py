"""From a script to a job, and from its end to its results."""

from __future__ import annotations

import importlib.resources
import json
import re
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from trainperf.errors import ScriptFailed, TrainperfError
from trainperf.sagemaker import service
from trainperf.sagemaker.job import START, Job, plan
from trainperf.sagemaker.job import request as request_of
from trainperf.sagemaker.packing import Packed
from trainperf.sagemaker.service import Service

Say = Callable[[str], None]

_EXPECTED = re.compile(
    r"(?:[\w.-]+/)?trainperf/"
    r"(diagnosis\.json|fixes\.patch|exit-[\w-]+\.json|job/rank-\d+/(?:rank|recording)\.json)"
)
"""The only members that are unpacked; of several hosts each may have a folder of its own."""

LARGEST = 2 * 1024**3
"""Bytes that are unpacked in all; the records of a rank have some ten million."""

_MOST_MEMBERS = 100_000
"""Members that are looked at: what lies behind them is not worth hours of unpacking."""


@dataclass(frozen=True)
class Results:
    """The unpacked results: a diagnosis, or the folder of the ranks' records."""

    folder: Path
    diagnosis: Path | None = None
    ranks: Path | None = None


@dataclass(frozen=True)
class Upload:
    """The upload: the packed source, and what installs trainperf.

    `install` is what pip gets; where it is a wheel of the user's, `wheel` is the file.
    """

    packed: Packed
    install: str
    wheel: Path | None = None


def installed_by(given: str | None, version: str) -> tuple[str, Path | None]:
    """The requirement for pip, and the wheel to upload; raises `TrainperfError` if it is none."""
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
        if ended.status == "Failed" and not (there and _has_report(archive)):
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


def unpack(archive: Path, folder: Path, origin: str = "") -> Results:
    """Unpack the expected members of `archive` into `folder`; everything else stays in it.

    No path of the archive is used: names are matched whole, links and devices refused.
    `origin` is where it came from and stays, for the reader of an error.
    Raises `TrainperfError` where it is no archive, holds no report, or more than `LARGEST`.
    """
    left, where = LARGEST, origin or str(archive)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in islice(tar, _MOST_MEMBERS):
                match = _EXPECTED.fullmatch(member.name.removeprefix("./"))
                if match is None or not member.isfile():
                    continue
                left -= max(0, member.size)
                if left < 0:
                    raise TrainperfError(
                        f"the output holds records of more than {LARGEST / 1024**3:g} GiB",
                        f"look into {where}",
                    )
                _extract(tar, member, folder / match[1])
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise TrainperfError(
            f"the output of the job cannot be unpacked: {error}", f"look into {where}"
        ) from error
    diagnosis, ranks = folder / "diagnosis.json", folder / "job"
    if diagnosis.is_file():
        return Results(folder, diagnosis=diagnosis)
    if ranks.is_dir():
        return Results(folder, ranks=ranks)
    raise TrainperfError(
        "the output of the job holds no report", "its log says why: see CloudWatch"
    )


def _has_report(archive: Path) -> bool:
    """Whether an archive holds what `unpack` looks for; also where the job failed."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            names = (one.name for one in islice(tar, _MOST_MEMBERS) if one.isfile())
            found = (_EXPECTED.fullmatch(name.removeprefix("./")) for name in names)
            return any(one and one[1].startswith(("diagnosis", "job/")) for one in found)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError):
        return False


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    data = tar.extractfile(member)
    if data is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with data, target.open("wb") as file:
        while piece := data.read(1024**2):
            file.write(piece)
