"""The request for a training job, and what is refused before anything is sent."""

from __future__ import annotations

import datetime
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from trainperf.errors import TrainperfError
from trainperf.sagemaker.job import (
    CHANNEL,
    Job,
    channels,
    named,
    request,
    unpack,
)

JOB = Job(
    name="trainperf-train-20261121-203514",
    script="code/train.py",
    arguments=("--epochs", "1"),
    instance_type="ml.g5.xlarge",
    role="arn:aws:iam::123456789012:role/service-role/Training",
    image="123456789012.dkr.ecr.eu-west-1.amazonaws.com/training:2.11-gpu",
    output="s3://bucket/trainperf",
    inputs=(("train", "s3://bucket/train"),),
    input_mode="FastFile",
)


def test_a_name_that_is_given_twice_or_taken_is_refused():
    with pytest.raises(TrainperfError, match="cannot name a channel"):
        channels([f"{CHANNEL}=s3://bucket/x"])
    with pytest.raises(TrainperfError, match="cannot name a channel"):
        channels(["a=s3://bucket/x", "a=s3://bucket/y"])


@pytest.mark.parametrize(
    "job",
    [JOB, replace(JOB, inputs=()), replace(JOB, instance_count=2)],
    ids=["all", "least", "two hosts"],
)
def test_the_request_is_one_that_botocore_would_send(job: Job) -> None:
    """Checked against botocore's own description of the API."""
    botocore_session = pytest.importorskip("botocore.session")
    from botocore.validate import ParamValidator

    model = botocore_session.get_session().get_service_model("sagemaker")
    shape = model.operation_model("CreateTrainingJob").input_shape
    made = request(job)
    report = ParamValidator().validate(made, shape)
    assert not report.has_errors(), report.generate_report()
    algorithm = shape.members["AlgorithmSpecification"]
    for word in made["AlgorithmSpecification"]["ContainerEntrypoint"]:
        limit = algorithm.members["ContainerEntrypoint"].member.metadata["max"]
        assert len(word) <= limit


@pytest.mark.parametrize("script", ["train.py", "a/b/träin__.py", "x" * 90 + ".py", "--.py"])
def test_a_jobs_name_is_one_that_sagemaker_takes(script: str) -> None:
    import re

    name = named(script, datetime.datetime(2026, 11, 21, 20, 35, 14, 7000))
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name)
    assert name.endswith("20261121-203514-007")


# Archives that come back: only what is expected leaves them.


def archive(folder: Path, *members: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    path = folder / "output.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_hostile_members_stay_where_they_are(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = archive(
        tmp_path,
        ("../evil", b"x"),
        ("/tmp/evil", b"x"),
        ("trainperf/../../evil", b"x"),
        ("trainperf/job/rank-0/../../../../evil", b"x"),
        ("trainperf/other.txt", b"x"),
        link("trainperf/fixes.patch", "/etc/passwd"),
        link("trainperf/exit-algo-1.json", "/etc/passwd", tarfile.LNKTYPE),
        ("trainperf/diagnosis.json", b"{}"),
    )
    found = unpack(made, out)
    assert [path.name for path in out.rglob("*")] == ["diagnosis.json"]
    assert found == out / "diagnosis.json"
    assert not (tmp_path / "evil").exists()


def test_records_of_several_hosts_come_into_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = archive(
        tmp_path,
        ("./algo-1/trainperf/job/rank-00000/rank.json", b"0"),
        ("./algo-2/trainperf/job/rank-00001/rank.json", b"1"),
        ("./algo-2/trainperf/job/rank-00001/recording.json", b"1"),
    )
    found = unpack(made, out)
    assert found == out / "job"
    assert sorted(path.name for path in (out / "job").iterdir()) == ["rank-00000", "rank-00001"]


def test_what_holds_no_report_or_is_no_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainperfError, match="no report"):
        unpack(archive(tmp_path, ("model.bin", b"x")), tmp_path)
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(b"no archive")
    with pytest.raises(TrainperfError, match="cannot be unpacked"):
        unpack(broken, tmp_path)
    whole = archive(tmp_path, ("trainperf/diagnosis.json", bytes(200_000)))
    broken.write_bytes(whole.read_bytes()[:150])
    with pytest.raises(TrainperfError, match="cannot be unpacked"):
        unpack(broken, tmp_path)
