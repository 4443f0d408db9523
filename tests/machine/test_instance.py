from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_fakes import LAPTOP, MEMORY, NITRO, imds, price_list, serving, slow

from kit.stubs import write
from trainperf.machine import inspect_machine, with_late_answers
from trainperf.machine.aws import instance as instance_module
from trainperf.machine.aws.instance import ENDPOINT, NOT_AWS, Inquiry, identify

FAR_TOO_LONG = 60.0
"""Seconds within which anything here must be over; the slow services take twice as long."""

CONFIG = "opt/ml/input/config/resourceconfig.json"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An endpoint that nobody listens at, and no credentials nor names in the environment."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "SM_"))]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv(ENDPOINT, url)
    return url


@pytest.fixture
def keys(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-key")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for answers than a user would: this machine may be busy."""
    monkeypatch.setattr(instance_module, "DEADLINE_S", 30.0)
    monkeypatch.setattr(instance_module, "SURE_S", 30.0)
    monkeypatch.setattr(instance_module, "CONNECT_S", 30.0)
    monkeypatch.setattr(instance_module, "READ_S", 30.0)


def job(root: Path, **told: object) -> Path:
    return write(root, {CONFIG: json.dumps(told), **MEMORY})


# --------------------------------------------------------------------------- who tells


def test_a_laptop_is_not_asked_over_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        instance_module, "ask_metadata_service", lambda *_: pytest.fail("it was asked")
    )
    assert identify(write(tmp_path, LAPTOP), {}) == (None, NOT_AWS)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_the_firmware_stands_in_where_the_service_is_denied(
    tmp_path: Path, patient: None, status: int
) -> None:
    with serving(lambda request, body: (status, "")) as server:
        environment = {ENDPOINT: server.url, "AWS_REGION": "eu-north-1"}
        instance, reason = identify(write(tmp_path, NITRO), environment)
    assert instance is not None
    assert (instance.name, instance.region, reason) == ("g4dn.xlarge", "eu-north-1", "")
    assert f"HTTP {status}" in instance.source


def test_a_training_job_is_told_by_its_files(tmp_path: Path) -> None:
    root = job(
        tmp_path, current_instance_type="ml.g5.xlarge", hosts=["algo-1", "algo-2"], current_host="a"
    )
    with serving(imds) as server:
        environment = {
            ENDPOINT: server.url,
            "AWS_REGION": "eu-west-3",
            "SM_CURRENT_INSTANCE_TYPE": "ml.p3.2xlarge",
        }
        instance, _ = identify(root, environment)
    assert instance is not None
    assert (instance.service, instance.name, instance.hosts) == ("sagemaker", "ml.g5.xlarge", 2)
    assert (instance.region, instance.source) == ("eu-west-3", "SageMaker's resourceconfig.json")
    assert instance.type is not None
    assert instance.type.vcpus == 4
    assert server.asked == []


def test_a_training_job_is_told_by_its_variables_where_the_files_say_nothing(
    tmp_path: Path,
) -> None:
    environment = {"SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge", "SM_HOSTS": '["a", "b", "c"]'}
    for text in ("", "{", "[]", "{}", '{"current_instance_type": 7}'):
        root = write(tmp_path, {CONFIG: text})
        instance, _ = identify(root, environment)
        assert instance is not None
        assert (instance.name, instance.hosts) == ("ml.p4d.24xlarge", 3)


def test_the_local_mode_of_sagemaker_is_no_instance(tmp_path: Path) -> None:
    root = write(job(tmp_path, current_instance_type="local_gpu", hosts=["algo-1"]), LAPTOP)
    assert identify(root, {}) == (None, NOT_AWS)


# ------------------------------------------------------------------------- in its time


def test_a_service_that_takes_half_a_minute_holds_nobody_up(
    tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, NITRO | MEMORY)
    with serving(slow(600.0)) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        began = time.monotonic()
        machine = inspect_machine(root)
        assert time.monotonic() - began < FAR_TOO_LONG
    assert machine.instance is None or machine.instance.source.startswith("firmware")


def test_a_service_that_gives_its_answer_in_drops_holds_nobody_up(tmp_path: Path) -> None:
    """Each wait is short enough for a timeout; together they are not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked = Inquiry(
            tmp_path,
            {ENDPOINT: f"http://127.0.0.1:{server.getsockname()[1]}"},
        )
        connection, _ = server.accept()
        with connection:
            began = time.monotonic()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
            known = None
            while known is None and time.monotonic() - began < FAR_TOO_LONG:
                connection.sendall(b"x")
                time.sleep(0.1)
                if time.monotonic() - began > 1.2:
                    known = asked.answer()
    assert known is not None
    assert known.instance is None
    assert known.instance_reason


# ------------------------------------------------------------------------- the machine


def test_a_price_that_is_given_wins(
    tmp_path: Path, keys: None, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = job(tmp_path, current_instance_type="ml.g5.xlarge", hosts=["algo-1"])
    with serving(price_list({"ml.g5.xlarge": 1.41})) as server:
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        given = inspect_machine(root, price_per_hour=0.5)
        assert given.price is not None
        assert (given.price.per_hour, given.price.source) == (0.5, "--price-per-hour")
        assert with_late_answers(given, root).price == given.price


def test_what_came_late_is_there_in_the_end(
    tmp_path: Path, keys: None, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_module, "DEADLINE_S", 0.0)
    root = job(tmp_path, current_instance_type="ml.g5.xlarge", hosts=["algo-1"])
    with serving(price_list({"ml.g5.xlarge": 1.41, "ml.g5.2xlarge": 1.52})) as server:
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        machine = inspect_machine(root)
        assert machine.price is None
        end = time.monotonic() + FAR_TOO_LONG
        while machine.price is None and time.monotonic() < end:
            time.sleep(0.05)
            machine = with_late_answers(machine, root)
    assert machine.price is not None
    assert machine.price.per_hour == 1.41
    assert machine.price.source == "AWS price list, on demand, eu-west-1"
    assert machine.price_reason == ""
