"""The calls to AWS: upload, create, follow, download. Their errors become ours."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainperf.errors import TrainperfError

ENDED = frozenset({"Completed", "Failed", "Stopped"})
LOGS = "/aws/sagemaker/TrainingJobs"
POLL_S = 10.0
LOST_POLLS = 5
"""So many failing looks at a job in a row end the wait; one may be the network's."""


@dataclass(frozen=True)
class Service:
    """The clients of one region, and its name."""

    s3: Any
    sagemaker: Any
    region: str


def connect(region: str | None) -> Service:
    """Make the clients; raises `TrainperfError` without a region or credentials."""
    import boto3

    region = region_of(region)
    with _calling("connect to AWS"):
        session = boto3.Session(region_name=region)
        if session.get_credentials() is None:
            raise TrainperfError(
                "no AWS credentials were found", "aws configure, or set AWS_PROFILE"
            )
        return Service(session.client("s3"), session.client("sagemaker"), region)


def region_of(region: str | None) -> str:
    """The region that would be used; raises `TrainperfError` if none is set."""
    if region:
        return region
    import boto3

    with _calling("read the AWS configuration"):
        found = boto3.Session().region_name
    if not found:
        raise TrainperfError("no AWS region is set", "give one: --region eu-west-1")
    return str(found)


def upload(service: Service, folder: str, files: dict[str, bytes]) -> None:
    """Put files into an `s3://` folder; raises `TrainperfError` where that cannot be."""
    bucket, _, prefix = folder.removeprefix("s3://").partition("/")
    with _calling(f"upload to {folder}", "check --output, and that you may write there"):
        for name, data in files.items():
            service.s3.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=data)


def create(service: Service, request: dict[str, Any]) -> None:
    """Start the job."""
    with _calling("start the training job", "check the role, the image and your quota"):
        service.sagemaker.create_training_job(**request)


def follow(
    service: Service, name: str, say: Callable[[str], None], poll_s: float = POLL_S
) -> dict[str, Any]:
    """Wait for the job's end, and say each change of its status; what SageMaker tells of it then.

    Its `TrainingJobStatus` is "Completed", "Failed" or "Stopped".
    """
    last, lost = "", 0
    while True:
        try:
            with _calling(f"look at the job {name}", "check its name and --region"):
                told: dict[str, Any] = service.sagemaker.describe_training_job(TrainingJobName=name)
            lost = 0
        except TrainperfError:
            lost += 1
            if lost >= LOST_POLLS or not last:
                raise
            time.sleep(poll_s)
            continue
        status = str(told.get("SecondaryStatus") or told["TrainingJobStatus"])
        if status != last:
            changes = told.get("SecondaryStatusTransitions") or [{}]
            message = str(changes[-1].get("StatusMessage") or "")
            say(f"{name}: {status}" + (f": {message}" if message else ""))
            last = status
        if told["TrainingJobStatus"] in ENDED:
            if (billed := told.get("BillableTimeInSeconds")) is not None:
                say(f"{name}: {billed} s are billed for each instance")
            return told
        time.sleep(poll_s)


def download(service: Service, path: str, file: Path) -> bool:
    """Fetch an object; whether there is one."""
    bucket, _, key = path.removeprefix("s3://").partition("/")
    with _calling(f"download {path}", "check that you may read there"):
        try:
            body = service.s3.get_object(Bucket=bucket, Key=key)["Body"]
        except service.s3.exceptions.NoSuchKey:
            return False
        with file.open("wb") as out:
            shutil.copyfileobj(body, out)
    return True


@contextmanager
def _calling(what: str, hint: str = "") -> Iterator[None]:
    """Turn what boto3 raises into an error that says what could not be done."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        said = error.response.get("Error", {})
        code, message = said.get("Code", "?"), said.get("Message", "")
        raise TrainperfError(
            f"AWS refused to {what}: {code}" + (f": {message}" if message else ""), hint
        ) from error
    except BotoCoreError as error:
        raise TrainperfError(
            f"could not {what}: {error}", hint or "check the credentials and the network"
        ) from error
