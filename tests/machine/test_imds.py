from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from aws_fakes import DMI, LAPTOP, NITRO, XEN, Answer, imds, serving

from kit.stubs import write
from trainperf.machine.instance import (
    ENDPOINT,
    Firmware,
    Metadata,
    ask_metadata_service,
    firmware,
)

Serve = Callable[[BaseHTTPRequestHandler, str], Answer]

PATIENT = 60.0
FAR_TOO_LONG = 60.0
"""Seconds within which anything here must be over; the slow services take twice as long."""


def asked(serve: Serve, timeout: float = PATIENT) -> Metadata:
    with serving(serve) as server:
        return ask_metadata_service({ENDPOINT: server.url}, timeout)


def test_an_instance_is_told_by_a_token_first() -> None:
    with serving(imds) as server:
        said = ask_metadata_service({ENDPOINT: server.url}, PATIENT)
    assert said == Metadata("g5.xlarge", "eu-west-1", "eu-west-1b")
    assert server.asked[0][:2] == ("PUT", "/latest/api/token")
    assert {token for _, _, token, _ in server.asked[1:]} == {"a-token=="}


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_service_that_denies_is_named_with_its_status(status: int) -> None:
    said = asked(lambda request, body: (status, "no"))
    assert said.type == ""
    assert f"HTTP {status}" in said.reason


@pytest.mark.parametrize(
    "text",
    ["", "<html>captive portal</html>", "\x1b[31mred", "g5.xlarge\nX", "a" * 100_000, "\udcff"],
)
def test_garbage_is_no_instance_type(text: str) -> None:
    said = asked(lambda request, body: (200, text))
    assert said.type == ""
    assert said.reason
    assert len(said.reason) < 200
    assert said.reason.isprintable()


@pytest.mark.parametrize("given", ["http://[broken", "ftp://x", "://", "http://127.0.0.1:99999"])
def test_an_endpoint_that_is_none_raises_nothing(given: str) -> None:
    assert ask_metadata_service({ENDPOINT: given}, 0.2).reason


def test_a_user_who_forbids_it_is_obeyed() -> None:
    with serving(imds) as server:
        said = ask_metadata_service(
            {ENDPOINT: server.url, "AWS_EC2_METADATA_DISABLED": "True"}, 5.0
        )
    assert "AWS_EC2_METADATA_DISABLED" in said.reason
    assert server.asked == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, Firmware(None)),
        ({f"{DMI}/sys_vendor": "\n"}, Firmware(None)),
        (LAPTOP, Firmware(False)),
        ({f"{DMI}/sys_vendor": "Google\n"}, Firmware(False)),
        (NITRO, Firmware(True, "g4dn.xlarge")),
        (XEN, Firmware(True)),
        (NITRO | {f"{DMI}/product_name": "HVM domU\n"}, Firmware(True)),
        (NITRO | {f"{DMI}/product_name": "p6-b200.48xlarge\n"}, Firmware(True, "p6-b200.48xlarge")),
    ],
)
def test_the_firmware_says_whose_machine_it_is(
    tmp_path: Path, files: dict[str, str], found: Firmware
) -> None:
    assert firmware(write(tmp_path, files)) == found
