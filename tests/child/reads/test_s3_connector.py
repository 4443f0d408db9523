"""Hooks in s3torchconnector: its reads are counted, and its program has what it had.

The library comes with torch, and is in none of the test environments: what stands for it here
has the methods of the `S3Client` of its version 1.5, by which this was tried against moto.
"""

from __future__ import annotations

import os
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from trainperf.child.reads import s3

NAME = "s3torchconnector._s3client._s3client"
ANSWER_S, PIECE_S = 0.02, 0.005


class Stream:
    """Pieces that come one by one, as those of the native client."""

    def __init__(self, *pieces: Any) -> None:
        self._pieces = iter(pieces)

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        time.sleep(PIECE_S)
        return next(self._pieces)

    def tell(self) -> int:
        return 7


@pytest.fixture
def library() -> ModuleType:
    class S3Client:
        def __init__(self, region: str, *, endpoint: str | None = None) -> None:
            self._region = region
            self._endpoint = endpoint

        def _get_object_stream(
            self, bucket: str, key: str, start: int | None = None, end: int | None = None
        ) -> Stream:
            time.sleep(ANSWER_S)
            if key == "denied":
                raise RuntimeError("Client error: <Code>AccessDenied</Code>")
            return Stream(b"x" * 600, b"y" * 400) if start is None else Stream(b"z" * 10)

        def head_object(self, bucket: str, key: str) -> int:
            return 1000

        def list_objects(self, bucket: str, prefix: str = "") -> Stream:
            return Stream(["train/a"], ["train/b"])

    module = ModuleType(NAME)
    module.S3Client = S3Client  # type: ignore[attr-defined]
    return module


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr("trainperf.child.reads.s3_counts.EVERY_S", 0.0)
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    return []


@pytest.fixture
def client(library: ModuleType, told: list[dict[str, Any]]) -> Any:
    def write(kind: str, /, **sums: Any) -> None:
        told.append(sums)

    record = SimpleNamespace(broken="", write=write, flush=lambda: None)
    s3.hook(s3.counts(SimpleNamespace(settings={}, record=record)), library)
    return library.S3Client("eu-west-1", endpoint="http://store")


def sums(told: list[dict[str, Any]]) -> dict[str, Any]:
    (bucket,) = told[-1]["buckets"]
    return dict(bucket)


def test_a_read_of_an_object_is_one_request_with_its_bytes_and_what_was_waited_for(client, told):
    assert b"".join(client._get_object_stream("data", "train/a")) == b"x" * 600 + b"y" * 400

    found = sums(told)
    assert (found["bucket"], found["region"], found["endpoint"]) == (
        "data", "eu-west-1", "http://store",
    )  # fmt: skip
    assert (found["requests"], found["gets"], found["bytes"]) == (1, 1, 1000)
    assert (found["sized"], found["sized_bytes"], found["keys"]) == (1, 1000, [("train/a", 1000)])
    assert found["prefix"] == "train/"
    assert found["seconds"] >= ANSWER_S
    assert found["body_s"] >= 2 * PIECE_S


def test_what_passes_between_two_pieces_is_not_counted_as_waiting(client, told):
    stream = client._get_object_stream("data", "train/a")
    time.sleep(0.2)
    list(stream)

    found = sums(told)
    assert found["seconds"] + found["body_s"] < 0.2
    assert told[-1]["busy"] < 0.2


def test_a_range_does_not_tell_how_large_the_object_is(client, told):
    list(client._get_object_stream("data", "train/a", start=10, end=20))

    assert (sums(told)["bytes"], sums(told)["sized"]) == (10, 0)


def test_a_version_without_ranges_is_called_as_it_was(library, told):
    def _get_object_stream(self, bucket, key):
        return Stream(b"x" * 5)

    library.S3Client._get_object_stream = _get_object_stream
    record = SimpleNamespace(broken="", write=lambda kind, **sums: told.append(sums), flush=print)
    s3.hook(s3.counts(SimpleNamespace(settings={}, record=record)), library)

    assert list(library.S3Client("eu-west-1")._get_object_stream("data", "a")) == [b"x" * 5]
    assert (sums(told)["gets"], sums(told)["sized_bytes"]) == (1, 5)


def test_pages_of_a_listing_and_questions_for_a_size_are_requests(client, told):
    assert list(client.list_objects("data", prefix="train/")) == [["train/a"], ["train/b"]]
    assert client.head_object("data", "train/a") == 1000

    assert (sums(told)["requests"], sums(told)["gets"]) == (3, 0)
    assert sums(told)["prefix"] == "train/"


def test_an_error_is_counted_by_what_s3_answered_and_reaches_the_program(client, told):
    with pytest.raises(RuntimeError, match="AccessDenied"):
        client._get_object_stream("data", "denied")

    assert sums(told)["errors"] == {"AccessDenied": 1}


def test_a_stream_keeps_what_else_it_can(client):
    assert client._get_object_stream("data", "train/a").tell() == 7


def test_a_fault_of_ours_costs_a_figure_and_not_the_program(client, told):
    del client._region

    assert len(b"".join(client._get_object_stream("data", "train/a"))) == 1000
    assert told == []


def test_a_library_without_these_methods_is_left_alone(told):
    record = SimpleNamespace(broken="", write=told.append, flush=lambda: None)
    s3.hook(s3.counts(SimpleNamespace(settings={}, record=record)), ModuleType(NAME))
    assert told == []
