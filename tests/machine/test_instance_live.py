from __future__ import annotations

import json
import os
import socket
import time

import pytest
from aws_fakes import price_list, product, serving, slow

from trainperf.fixes.host._instance_types import instance_type
from trainperf.machine.aws import instance as instance_module
from trainperf.machine.aws.instance import (
    ENDPOINT,
    NO_CREDENTIALS,
    _price_per_hour,
    ask_price_list,
)
from trainperf.model import Instance, Price

SECRET = "a-secret-that-nobody-may-print"
FAR_TOO_LONG = 60.0

G5 = Instance("ec2", "g5.xlarge", instance_type("g5.xlarge"), "eu-west-1")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """An endpoint that nobody listens at, for everything; no credentials anywhere."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv(ENDPOINT, url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    return url


@pytest.fixture
def keys(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for answers than a user would: this machine may be busy."""
    monkeypatch.setattr(instance_module, "CONNECT_S", 30.0)
    monkeypatch.setattr(instance_module, "READ_S", 30.0)


def told(instance: Instance) -> list[tuple[Instance, Price | None, str]]:
    """The words on an instance, the last one last."""
    found: list[tuple[Instance, Price | None, str]] = []
    ask_price_list(instance, lambda *known: found.append(known))
    return found


# ------------------------------------------------------------------------------ prices


def test_the_price_of_an_instance_and_of_its_siblings(
    keys: None, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = {"g5.xlarge": 1.1, "g5.4xlarge": 1.8, "p4d.24xlarge": 30.0}
    with serving(price_list(prices)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        instance, price, reason = told(G5)[-1]
    assert price == Price(1.1, "AWS price list, on demand, eu-west-1")
    assert reason == ""
    assert instance.prices == (("g5.4xlarge", 1.8), ("g5.xlarge", 1.1))
    assert instance.price_ratio("g5.4xlarge") == pytest.approx(1.8 / 1.1)
    assert instance.price_ratio("g5.8xlarge") is None


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


@pytest.mark.parametrize("text", ["", "<html>", '{"PriceList": 7}', '{"PriceList": ["{"]}'])
def test_garbage_is_no_price(text: str, keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda request, body: (200, text)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        _, price, reason = told(G5)[-1]
    assert price is None
    assert reason


def test_a_price_list_that_takes_half_a_minute_is_given_up(
    keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    with serving(slow(600.0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        _, price, reason = told(G5)[-1]
    assert time.monotonic() - began < FAR_TOO_LONG
    assert price is None
    assert "Timeout" in reason
    assert [body.count('"g5.xlarge"') for _, _, _, body in server.asked].count(1) == 1  # once


def test_a_profile_that_does_not_exist_is_no_error(
    nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of-another-machine")
    (known,) = told(G5)
    assert known[1] is None
    assert "ProfileNotFound" in known[2]
