"""`trainperf sagemaker submit`, from the command line to moto's SageMaker and back."""

from __future__ import annotations

import functools
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kit.stubs import KEYS
from reporters.samples import FAILED, INPUT_BOUND
from trainperf import store
from trainperf.commands.sagemaker import sagemaker
from trainperf.errors import ScriptFailed, TrainperfError
from trainperf.model import Diagnosis
from trainperf.sagemaker import service

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")

ROLE = "arn:aws:iam::123456789012:role/Training"
ASKED = (
    "--instance-type", "ml.g5.xlarge", "--role", ROLE, "--image", "image:1",
    "--output", "s3://out/runs", "--region", "us-east-1",
)  # fmt: skip


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture
def aws(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A folder with a script in it, and an AWS that only this test knows."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "TRAINPERF_"))]:
        monkeypatch.delenv(name)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRAINPERF_OUTPUT_DIR", str(tmp_path / "runs"))
    monkeypatch.setattr(service, "POLL_S", 0.0)
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "code")
    Path("train.py").write_text("import model\n")
    Path("model.py").write_text("x = 1\n")

    monkeypatch.setattr(service, "connect", connect)  # making clients takes a second
    client("s3").create_bucket(Bucket="out")
    return client


connect = functools.cache(service.connect)


@functools.cache
def client(name: str) -> Any:
    return boto3.client(name, region_name="us-east-1")


@pytest.fixture
def job_leaves(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the job, which moto ends at once, leave files where SageMaker would put them."""
    create = service.create

    def leaving(files: dict[str, bytes]) -> None:
        def made(one: service.Service, request: dict[str, Any]) -> None:
            create(one, request)
            key = f"runs/{request['TrainingJobName']}/output/output.tar.gz"
            one.s3.put_object(Bucket="out", Key=key, Body=packed(files))

        monkeypatch.setattr(service, "create", made)

    return leaving


def packed(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


def saved(diagnosis: Diagnosis, folder: Path) -> bytes:
    store.save(diagnosis, folder / "one.json")
    return (folder / "one.json").read_bytes()


def call(*words: str) -> Result:
    return CliRunner().invoke(sagemaker, [*words])


def jobs(aws: Callable[[str], Any]) -> set[str]:
    told = aws("sagemaker").list_training_jobs(MaxResults=100)
    return {one["TrainingJobName"] for one in told["TrainingJobSummaries"]}


def test_a_dry_run_prints_the_request_and_sends_nothing(aws, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    result = call(
        "submit", "train.py", *ASKED, "--input", "a=s3://bucket/c", "--dry-run", "--", "-e", "1"
    )
    assert result.exit_code == 0
    made = json.loads(result.stdout)
    assert made["ResourceConfig"]["InstanceType"] == "ml.g5.xlarge"
    assert [one["ChannelName"] for one in made["InputDataConfig"]] == ["trainperf", "a"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing.py", *ASKED), "no such file"),
        (("a.ipynb", *ASKED), "a.ipynb is a notebook"),
        (("../train.py", *ASKED), "not inside"),
        (("train.py", *ASKED, "--max-runtime", "soon"), "--max-runtime"),
        (("train.py", *ASKED, "--trainperf", "nothing.whl"), "no such wheel"),
    ],
)
def test_what_is_wrong_is_said_before_any_call(aws, monkeypatch, words, said):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    Path("a.ipynb").write_text('{"cells": [{"cell_type": "code", "source": "x = 1"}]}')
    error = call("submit", *words).exception
    assert isinstance(error, TrainperfError)
    assert said in str(error)


def test_the_report_of_the_job_is_printed_and_kept_as_a_run(aws, job_leaves, tmp_path):
    job_leaves({"trainperf/diagnosis.json": saved(INPUT_BOUND, tmp_path)})
    result = call("submit", "train.py", *ASKED, "--", "--epochs", "2")
    assert result.exit_code == 0, result.output
    assert INPUT_BOUND.verdict.text[:30] in result.stdout
    assert "AWS charges for it" in result.stderr
    assert "Completed" in result.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert store.load(run / "diagnosis.json") == store.load(tmp_path / "one.json")
    assert not (run / "output.tar.gz").exists()

    (name,) = {one for one in jobs(aws) if one in result.stderr}
    source = f"runs/{name}/source"
    body = aws("s3").get_object(Bucket="out", Key=f"{source}/source.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        assert set(tar.getnames()) == {"train.py", "model.py"}
    plan = json.loads(aws("s3").get_object(Bucket="out", Key=f"{source}/plan.json")["Body"].read())
    assert plan["arguments"] == ["--epochs", "2"]
    assert plan["install"].startswith("trainperf==")


def test_a_job_that_is_not_waited_for_is_fetched_later(aws, job_leaves, tmp_path):
    job_leaves({"trainperf/diagnosis.json": saved(INPUT_BOUND, tmp_path)})
    before = jobs(aws)
    started = call("submit", "train.py", *ASKED, "--no-wait")
    assert started.exit_code == 0
    assert started.stdout == ""
    (name,) = jobs(aws) - before
    assert f"trainperf sagemaker fetch {name}" in started.stderr
    fetched = call("fetch", name, "--region", "us-east-1")
    assert fetched.exit_code == 0
    assert INPUT_BOUND.verdict.text[:30] in fetched.stdout


def test_a_job_without_output_is_an_error_and_leaves_no_run(aws, tmp_path):
    error = call("submit", "train.py", *ASKED).exception
    assert isinstance(error, TrainperfError)
    assert "left no output" in str(error)
    assert list((tmp_path / "runs").iterdir()) == []


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_leaves_the_job_and_says_how_to_stop_it(aws, monkeypatch, tmp_path):
    monkeypatch.setattr(service, "follow", interrupted)
    result = call("submit", "train.py", *ASKED)
    assert result.exit_code == 130
    assert "aws sagemaker stop-training-job --training-job-name trainperf-train" in result.stderr
    assert "trainperf sagemaker fetch" in result.stderr
    assert list((tmp_path / "runs").iterdir()) == []


# ---------------------------------------------------------------------------- following


class Jobs:
    """A SageMaker whose job goes through statuses, one for each look."""

    def __init__(self, *told: dict[str, Any] | Exception) -> None:
        self._told = iter(told)

    def describe_training_job(self, **_: object) -> dict[str, Any]:
        one = next(self._told)
        if isinstance(one, Exception):
            raise one
        return one


def status(training: str, secondary: str, **more: Any) -> dict[str, Any]:
    return {"TrainingJobStatus": training, "SecondaryStatus": secondary, **more}


def followed(*told: dict[str, Any] | Exception) -> tuple[str, list[str]]:
    said: list[str] = []
    made = service.Service(None, Jobs(*told), "us-east-1")
    return service.follow(made, "job", said.append, poll_s=0.0)["TrainingJobStatus"], said


def test_each_change_of_status_is_said_once():
    waits = status("InProgress", "Downloading")
    done = status("Completed", "Completed", BillableTimeInSeconds=90)
    ended, said = followed(status("InProgress", "Starting"), waits, waits, waits, done)
    assert ended == "Completed"
    assert said == [
        "job: Starting",
        "job: Downloading",
        "job: Completed",
        "job: 90 s are billed for each instance",
    ]


def test_a_look_that_fails_is_repeated_and_then_given_up():
    from botocore.exceptions import EndpointConnectionError

    lost = EndpointConnectionError(endpoint_url="x")
    ended, _ = followed(status("InProgress", "Training"), lost, lost, status("Completed", "Done"))
    assert ended == "Completed"
    with pytest.raises(TrainperfError, match="look at the job"):
        followed(status("InProgress", "Training"), *[lost] * service.LOST_POLLS)


def failed(reason: str) -> dict[str, Any]:
    output = {"S3OutputPath": "s3://out/runs"}
    return status("Failed", "Failed", FailureReason=reason, OutputDataConfig=output)


def test_a_job_that_failed_and_left_a_report_has_it_printed(aws, job_leaves, monkeypatch, tmp_path):
    job_leaves({"trainperf/diagnosis.json": saved(FAILED, tmp_path), "trainperf/exit-a.json": b"3"})
    monkeypatch.setattr(service, "follow", lambda *_: failed("AlgorithmError: exit 3"))
    result = call("submit", "train.py", *ASKED)
    assert result.exit_code == 3
    assert FAILED.verdict.text[:30] in result.stdout
    assert "failed: AlgorithmError: exit 3" in result.stderr


@pytest.mark.parametrize("left", [{"trainperf/exit-a.json": b"1"}, {"model.bin": b"x"}])
def test_a_job_that_failed_with_an_output_but_no_report_gives_its_own_reason(
    aws, job_leaves, monkeypatch, left
):
    job_leaves(left)
    monkeypatch.setattr(service, "follow", lambda *_: failed("AlgorithmError: pip failed"))
    error = call("submit", "train.py", *ASKED).exception
    assert isinstance(error, ScriptFailed)
    assert "AlgorithmError: pip failed" in str(error)
