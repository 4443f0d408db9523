"""Hooks in botocore, against a real server: the program has its answers, trainperf its sums."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.stubs import KEYS, Store, proxy
from trainperf.child.process.patching import undo
from trainperf.child.process.recorder import Recorder
from trainperf.child.reads import s3

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")
botocore = pytest.importorskip("botocore")

SIZE = 3000


class Kept:
    """A record that keeps the last sums."""

    broken = ""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {}

    def write(self, kind: str, /, **fields: Any) -> None:
        assert kind == "s3"
        self.last = fields

    def flush(self) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def store(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with proxy(port) as made:
        yield made


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Hooks are set in botocore for the test, and every request is written at once."""
    import botocore.client
    import botocore.response

    monkeypatch.setattr("trainperf.child.reads.s3.EVERY_S", 0.0)
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    one = SimpleNamespace(settings={}, record=Kept(), off=False)
    one.counts = s3.counts(one)
    s3.hook(one, one.counts, botocore.client)
    yield one
    undo(botocore.client.BaseClient, "_make_api_call")
    undo(botocore.response.StreamingBody, "read")


@pytest.fixture
def client(store: Store) -> Any:
    made = boto3.client("s3", endpoint_url=store.url)
    made.create_bucket(Bucket="hooked")
    for number in range(3):
        made.put_object(Bucket="hooked", Key=f"train/{number}", Body=b"x" * SIZE)
    return made


def sums(process: SimpleNamespace) -> dict[str, Any]:
    return process.record.last["buckets"][0]


def test_requests_bytes_keys_and_times_add_up(store, process, client):
    store.delay_s = 0.02
    for number in range(3):
        body = client.get_object(Bucket="hooked", Key=f"train/{number}")["Body"]
        assert body.read() == b"x" * SIZE
    client.get_object(Bucket="hooked", Key="train/0", Range="bytes=0-9")
    one = sums(process)
    assert (one["requests"], one["gets"], one["bytes"]) == (4, 4, 3 * SIZE + 10)
    assert one["seconds"] >= 4 * store.delay_s
    assert (one["prefix"], one["endpoint"], one["errors"]) == ("train/", store.url, {})


def test_an_error_reaches_the_program_as_it_was(store, process, client):
    with pytest.raises(client.exceptions.NoSuchKey):
        client.get_object(Bucket="hooked", Key="nothing")
    assert sums(process)["errors"] == {"NoSuchKey": 1}


def test_a_fault_of_ours_costs_a_figure_and_not_the_program(store, process, client):
    process.counts.bucket = None
    assert client.head_object(Bucket="hooked", Key="train/0")["ContentLength"] == SIZE


def test_a_worker_that_records_nothing_else_still_writes_its_sums(tmp_path: Path) -> None:
    record = Recorder(str(tmp_path))
    record.write("hello")
    record.flush()
    record.discard()
    writing = s3.counts(SimpleNamespace(record=record))._write
    writing({"buckets": [], "busy": 0.0})
    (file,) = tmp_path.glob("events-*.jsonl")
    assert '"e": "s3"' in file.read_text()
    assert "hello" not in file.read_text()
