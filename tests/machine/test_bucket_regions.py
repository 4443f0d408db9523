"""Buckets are asked for their regions once, and nothing that S3 may answer holds a run up."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kit.stubs import KEYS, Answer, Store, proxy
from trainperf.machine.after_run import with_regions
from trainperf.model import Objects

pytestmark = pytest.mark.script

boto3 = pytest.importorskip("boto3")
botocore_loaders = pytest.importorskip("botocore.loaders")
moto_server = pytest.importorskip("moto.server")

loader = functools.cache(botocore_loaders.create_loader)

DATA = Objects("data", prefix="train/", requests=10)
AMPLE_S = 60.0
"""Time enough on a machine that is busy with something else."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    s3 = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    s3.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    yield port
    server.stop()


@pytest.fixture
def store(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("botocore.session.create_loader", loader)  # reads large files, each time
    with proxy(port) as made:
        yield made


def region(store: Store, seconds: float = AMPLE_S, **env: str) -> str | None:
    (found,) = with_regions([DATA], {**store.env, **env}, seconds)
    return found.region


def refusing(status: int, **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda method, path: Answer(status, "", named)


def test_without_credentials_nothing_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert region(store, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="") is None
    assert store.asked == []


def test_a_store_of_ones_own_is_not_asked(store: Store) -> None:
    minio = replace(DATA, endpoint="http://minio:9000")
    assert with_regions([minio], store.env) == (minio,)
    assert store.asked == []


def test_a_store_that_never_answers_or_refuses_leaves_the_region_open(store: Store) -> None:
    store.fault = refusing(404)
    assert region(store) is None
    store.fault = refusing(-1)
    began = time.monotonic()
    assert region(store, seconds=1.0) is None
    assert time.monotonic() - began < AMPLE_S


def test_a_bucket_is_asked_once_and_only_read(store: Store) -> None:
    assert region(store) == "eu-west-1"
    assert [line.split()[0] for line in store.asked] == ["HEAD"]


@pytest.mark.parametrize("status", [301, 403])
def test_an_answer_that_refuses_says_where_the_bucket_is(store: Store, status: int) -> None:
    store.fault = refusing(status, x_amz_bucket_region="ap-south-1")
    assert region(store) == "ap-south-1"
