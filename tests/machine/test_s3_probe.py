"""Probing S3: what is measured, what it takes at most, and every way it can fail."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kit.stubs import KEYS, Answer, Store, proxy
from trainperf.machine.storage import s3_probe
from trainperf.machine.storage.s3_probe import Limits, probe
from trainperf.model import Objects

pytestmark = pytest.mark.script

boto3 = pytest.importorskip("boto3")
botocore_loaders = pytest.importorskip("botocore.loaders")
moto_server = pytest.importorskip("moto.server")

loader = functools.cache(botocore_loaders.create_loader)

SIZE = 200_000
AMPLE = Limits(bytes=4 * 1024**2, seconds=60.0)
"""Time enough on a machine that is busy with something else; no probe takes it."""

FAR_TOO_LONG = 18.0
"""Seconds within which a probe of two must be over; without a limit it takes 20 and more."""
DATA = Objects(
    "data", prefix="train/", requests=10, keys=tuple((f"train/{n}", None) for n in range(4))
)


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
    for number in range(4):
        s3.put_object(Bucket="data", Key=f"train/{number}", Body=b"x" * SIZE)
    yield port
    server.stop()


@pytest.fixture
def store(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("botocore.session.create_loader", loader)  # reads large files, each time
    monkeypatch.setattr(s3_probe, "CONNECT_S", 20.0)
    monkeypatch.setattr(s3_probe, "READ_S", 20.0)
    with proxy(port) as made:
        yield made


def probed(store: Store, one: Objects = DATA, limits: Limits = AMPLE, **env: str) -> Objects:
    (found,) = probe([one], {**store.env, **env}, limits=limits)
    return found


def refusing(status: int, code: str = "", **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda method, path: Answer(status, code, named)


# --------------------------------------------------------------- faults: no probe, a reason


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        (refusing(503, "SlowDown"), "SlowDown", "slow down"),
        (refusing(403, "AccessDenied"), "AccessDenied", "denied access"),
        (refusing(404, "NoSuchKey"), "NoSuchKey", "NoSuchKey"),
        (refusing(0), "ConnectionClosedError", "ConnectionClosedError"),
        pytest.param(
            *(refusing(404, "NoSuchBucket"), "NoSuchBucket", "NoSuchBucket"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *(refusing(400, "ExpiredToken"), "ExpiredToken", "ExpiredToken"), marks=pytest.mark.long
        ),
    ],
    ids=["slow down", "denied", "missing key", "dropped", "missing bucket", "expired"],
)
def test_a_store_that_fails_is_a_reason_and_an_error_by_name(
    store: Store, fault, name: str, words: str
) -> None:
    store.fault = fault

    found = probed(store)

    assert name in dict(found.probe_errors)
    assert words in found.reason
    assert found.latency_s is None
    assert found.throughput == ()
    assert found.errors == ()  # those of the script are its own


def test_a_bucket_in_another_region_that_redirects_says_where_it_is(store: Store) -> None:
    store.fault = refusing(301, "PermanentRedirect", x_amz_bucket_region="ap-south-1")

    found = probed(store)

    assert found.region == "ap-south-1"
    assert "another region" in found.reason


def test_a_store_that_never_answers_takes_no_more_than_the_time(store: Store) -> None:
    store.fault = refusing(-1)
    began = time.monotonic()

    found = probed(store, limits=Limits(seconds=1.0))

    assert time.monotonic() - began < FAR_TOO_LONG
    assert "did not answer in time" in found.reason


def test_a_body_that_trickles_takes_no_more_than_the_time(store: Store) -> None:
    store.bytes_s = 40_000.0
    began = time.monotonic()

    found = probed(store, limits=Limits(seconds=2.0))

    assert time.monotonic() - began < FAR_TOO_LONG
    assert found.latency_s is not None
    assert 16 not in dict(found.throughput)


def test_without_credentials_nothing_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    found = probed(store, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")

    assert found.reason == "no AWS credentials were found"
    assert store.asked == []
    assert found.probed_requests == 0


# --------------------------------------------------------------------------- what is found


def test_latency_throughput_and_region_are_measured(store: Store) -> None:
    store.delay_s = 0.1

    found = probed(store)

    assert found.reason == ""
    assert found.region == "eu-west-1"
    assert found.latency_s is not None
    assert found.latency_s >= store.delay_s
    rates = dict(found.throughput)
    assert sorted(rates) == [1, 4, 16]
    assert rates[4] > 1.3 * rates[1]  # the delay is waited for at once
    assert found.mean_object_bytes == SIZE
    assert found.keys[0] == ("train/0", SIZE)
    assert found.probe_errors == ()


def test_it_only_reads_and_stays_within_its_limits(store: Store) -> None:
    found = probed(store)

    assert {line.split()[0] for line in store.asked} <= {"GET", "HEAD"}
    assert found.probed_requests == len(store.asked) <= AMPLE.requests
    assert 0 < found.probed_bytes <= AMPLE.bytes + 16 * 64 * 1024
    assert found.probed_usd == 0.0  # a store of one's own has no price of AWS's


@pytest.mark.long
def test_the_limits_hold_for_all_buckets_together(store: Store) -> None:
    others = [Objects(f"data{n}", keys=DATA.keys) for n in range(3)]

    found = probe([DATA, *others], store.env, limits=AMPLE)

    assert len(store.asked) <= AMPLE.requests
    assert [one.bucket for one in found] == ["data", "data0", "data1", "data2"]
    assert "only 3 buckets" in found[3].reason


def test_a_store_that_sends_ten_gigabytes_for_a_byte_is_hung_up_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    ended = threading.Event()

    class Flood(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(10 * 1024**3))
            self.end_headers()
            sent.append(0)
            at = len(sent) - 1
            try:
                for _ in range(10 * 1024):
                    self.wfile.write(bytes(1024**2))
                    sent[at] += 1
            except OSError:
                pass
            ended.set()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Flood)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        found = probed(store, replace(DATA, endpoint=url), Limits(bytes=8 * 1024**2, seconds=10.0))
        assert ended.wait(20)
    finally:
        server.shutdown()
        server.server_close()

    assert found.latency_s is not None
    assert sum(sent) < 500  # MiB: what stands in the sockets' buffers, not what was offered


@pytest.mark.parametrize("bucket", ["a b", "x\n\x1b[31m", "../..", "ü" * 70, "[red]"])
def test_a_name_that_no_bucket_can_have_is_a_reason(store: Store, bucket: str) -> None:
    found = probed(store, replace(DATA, bucket=bucket))

    assert "could not be asked" in found.reason or "not there" in found.reason
    assert found.latency_s is None
