"""A PyTorch script that reads its samples from S3: what is seen and found."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kit.processes import observed, python
from kit.stubs import Store, proxy
from trainperf import evidence
from trainperf.evidence.objects import seen
from trainperf.fixes.findings import shown_findings
from trainperf.machine import inspect_machine
from trainperf.model import Objects, Recording

pytest.importorskip("torch")
boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("nothing_left")]

LOOPS = Path(__file__).parent / "torch_loops"
DELAY_S = 0.02


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    client.create_bucket(Bucket="photos")
    for number in range(16):
        file = io.BytesIO()
        np.save(file, np.full(16, number / 16, dtype=np.float32))
        client.put_object(Bucket="photos", Key=f"train/{number}.npy", Body=file.getvalue())
    yield port
    server.stop()


@pytest.fixture
def store(port: int) -> Iterator[Store]:
    with proxy(port) as made:
        made.delay_s = DELAY_S
        yield made


def run(store: Store, tmp_path: Path, workers: int) -> tuple[Recording, Objects]:
    env = {
        **store.env,
        "PYTHONPATH": str(LOOPS),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    recording = observed(
        python(str(LOOPS / "s3_objects.py"), str(workers)),
        tmp_path,
        tmp_path / "run",
        env,
        measure_s=3.0,
        extra_s=1.0,
    )
    (one,) = seen(recording)
    return recording, one


def test_samples_read_one_by_one_are_found_with_what_they_cost(store, tmp_path):
    recording, one = run(store, tmp_path, 0)
    assert (one.bucket, one.prefix, one.endpoint) == ("photos", "train/", store.url)
    assert one.requests_per_step == pytest.approx(4, rel=0.25)  # a batch has four samples
    assert one.request_s is not None
    assert one.request_s >= DELAY_S
    assert one.mean_object_bytes == 128 + 16 * 4
    assert one.concurrency == pytest.approx(1, abs=0.01)
    assert one.errors == ()

    read = evidence.read(replace(recording, objects=(one,)), inspect_machine())
    found = {finding.id: finding for finding in shown_findings(read)}
    finding = found["s3_request_latency"]
    assert finding.bound is not None
    assert finding.bound > 2
