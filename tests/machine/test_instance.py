from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_fakes import LAPTOP, MEMORY, NITRO, imds, price_list, product, serving, slow

from kit.stubs import write
from trainperf.fixes.host.instances import instance_type
from trainperf.machine import inspect_machine, with_late_answers
from trainperf.machine.aws import instance as instance_module
from trainperf.machine.aws.instance import (
    ENDPOINT,
    NO_CREDENTIALS,
    NOT_AWS,
    _price_per_hour,
    ask_price_list,
    identify,
)
from trainperf.model import Instance, Price

FAR_TOO_LONG = 60.0
"""Seconds within which anything here must be over; the slow services take twice as long."""

SECRET = "a-secret-that-nobody-may-print"

G5 = Instance("ec2", "g5.xlarge", instance_type("g5.xlarge"), "eu-west-1")

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
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    return url


@pytest.fixture
def keys(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


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
        instance, _ = identify(root, {ENDPOINT: server.url, "AWS_REGION": "eu-west-3"})
    assert instance is not None
    assert (instance.service, instance.name, instance.hosts) == ("sagemaker", "ml.g5.xlarge", 2)
    assert (instance.region, instance.source) == ("eu-west-3", "SageMaker's resourceconfig.json")
    assert instance.type is not None
    assert instance.type.vcpus == 4
    assert server.asked == []


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


def told(instance: Instance) -> list[tuple[Instance, Price | None, str]]:
    """The words on an instance, the last one last."""
    found: list[tuple[Instance, Price | None, str]] = []
    ask_price_list(instance, lambda *known: found.append(known))
    return found


# ------------------------------------------------------------------------------ prices


def test_the_price_of_an_instance(
    keys: None, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(price_list({"g5.xlarge": 1.1, "p4d.24xlarge": 30.0})) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        _, price, reason = told(G5)[-1]
    assert price == Price(1.1, "AWS price list, on demand, eu-west-1")
    assert reason == ""


@pytest.mark.parametrize(
    "products",
    [
        [],
        [product(0.0)],
        [product(1.0, unit="Quantity")],
        [product("free")],
        [product(1.0), product(2.0)],
        ["{}"],
    ],
)
def test_what_is_not_one_price_is_none(products: list[object]) -> None:
    assert isinstance(_price_per_hour(products), str)


def test_without_credentials_nobody_is_asked(nobody: str) -> None:
    (known,) = told(G5)
    assert known[1:] == (None, NO_CREDENTIALS)


@pytest.mark.parametrize("status", [400, 403, 500, 503])
def test_a_price_list_that_denies_is_named_by_its_error_alone(
    status: int, keys: None, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"__type": "AccessDeniedException", "message": f"not with {SECRET}"}
    with serving(lambda request, body: (status, json.dumps(error))) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        found = told(G5)
    assert found[-1][1] is None
    assert "AccessDeniedException" in found[-1][2]
    assert SECRET not in repr(found)
