"""The request for a training job, and what is refused before anything is sent."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from trainperf.errors import TrainperfError
from trainperf.sagemaker.job import (
    CHANNEL,
    Job,
    channels,
    named,
    request,
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
