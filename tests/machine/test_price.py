"""AWS's price list is asked in a process of its own, and by nothing that a person must answer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest
from aws_fakes import Answer, serving

from fixes.boxes import instance as rented
from trainperf.machine import price
from trainperf.machine.price import with_price
from trainperf.model import Price


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user's profiles, of which one is chosen; no other credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    (tmp_path / "config").write_text(f"[profile mine]\n{KEYS}")
    (tmp_path / "json.py").write_text("raise SystemExit('this is not for trainperf')")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config"


KEYS = "aws_access_key_id = testing\naws_secret_access_key = testing\n"


def product(*dollars: float | str, unit: str = "Hrs") -> str:
    """One product of the price list, as the service gives it: JSON in a string."""
    of = {str(n): {"unit": unit, "pricePerUnit": {"USD": str(d)}} for n, d in enumerate(dollars)}
    return json.dumps({"terms": {"OnDemand": {"SKU": {"priceDimensions": of}}}})


def answering(*products: str) -> Callable[[BaseHTTPRequestHandler, str], Answer]:
    return lambda request, body: (200, json.dumps({"PriceList": products}))


def asked(
    answer: Callable[[BaseHTTPRequestHandler, str], Answer], monkeypatch: pytest.MonkeyPatch
) -> tuple[Price | None, dict[str, str]]:
    """The price that is found with such a price list, and the fields that it was asked for."""
    with serving(answer) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", server.url)
        found = with_price(rented()).price
    filters = json.loads(server.asked[0][3])["Filters"] if server.asked else []
    return found, {one["Field"]: one["Value"] for one in filters}


def test_a_price_that_is_given_wins_and_elsewhere_nobody_is_asked(config: Path) -> None:
    given = rented(price=Price(0.5, "--price-per-hour"))
    assert with_price(given) is given


@pytest.mark.usefixtures("config")
def test_the_price_is_that_of_the_type_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found, fields = asked(answering(product(0.0, 1.1)), monkeypatch)
    machine = rented()
    assert machine.instance is not None
    assert found == Price(1.1, f"AWS price list, on demand, {machine.instance.region}")
    assert fields["instanceType"] == machine.instance.name
    assert fields["regionCode"] == machine.instance.region


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    "products", [(), (product(1.0, unit="Quantity"),), (product("free"),), (product(1.0, 2.0),)]
)
def test_what_is_not_one_price_is_none(
    products: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(answering(*products), monkeypatch)[0] is None


@pytest.mark.usefixtures("config")
def test_a_list_that_denies_costs_nothing_but_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = json.dumps({"__type": "AccessDeniedException"})
    assert asked(lambda request, body: (403, denied), monkeypatch)[0] is None


def test_nobody_is_asked_for_an_mfa_code(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    role = "role_arn = arn:aws:iam::123456789012:role/Trainer\nmfa_serial = arn:aws:iam::1:mfa/me"
    config.write_text(f"[profile mine]\n{role}\nsource_profile = base\n[profile base]\n{KEYS}")
    assert asked(answering(product(1.0)), monkeypatch) == (None, {})


def test_a_program_for_credentials_that_hangs_is_ended(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, program = tmp_path / "pid", tmp_path / "credentials.sh"
    program.write_text(f"#!/bin/sh\necho $$ > '{pid}'\nexec sleep 600\n")
    program.chmod(0o755)
    config.write_text(f'[profile mine]\ncredential_process = "{program}"\n')
    monkeypatch.setattr(price, "PATIENCE_S", 4.0)
    assert asked(answering(product(1.0)), monkeypatch) == (None, {})
    until = time.monotonic() + 20
    while psutil.pid_exists(int(pid.read_text())):
        assert time.monotonic() < until
        time.sleep(0.05)
