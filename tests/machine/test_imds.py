from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from aws_fakes import DMI, LAPTOP, NITRO, XEN, Answer, imds, serving

from kit.stubs import write
from trainperf.machine.instance import ENDPOINT, ask_metadata_service, firmware

Serve = Callable[[BaseHTTPRequestHandler, str], Answer]

PATIENT = 60.0
FAR_TOO_LONG = 60.0
"""Seconds within which anything here must be over; the slow services take twice as long."""


def asked(serve: Serve, timeout: float = PATIENT) -> tuple[str, str]:
    with serving(serve) as server:
        return ask_metadata_service({ENDPOINT: server.url}, timeout)


def test_an_instance_is_told_by_a_token_first() -> None:
    with serving(imds) as server:
        said = ask_metadata_service({ENDPOINT: server.url}, PATIENT)
    assert said == ("g5.xlarge", "eu-west-1b")
    assert server.asked[0][:2] == ("PUT", "/latest/api/token")
    assert {token for _, _, token, _ in server.asked[1:]} == {"a-token=="}


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_service_that_denies_tells_nothing(status: int) -> None:
    assert asked(lambda request, body: (status, "g5.xlarge")) == ("", "")


@pytest.mark.parametrize(
    "text",
    ["", "<html>captive portal</html>", "\x1b[31mred", "g5.xlarge\nX", "a" * 100_000, "\udcff"],
)
def test_garbage_is_no_instance_type(text: str) -> None:
    assert asked(lambda request, body: (200, text)) == ("", "")


@pytest.mark.parametrize("given", ["http://[broken", "ftp://x", "://", "http://127.0.0.1:99999"])
def test_an_endpoint_that_is_none_raises_nothing(given: str) -> None:
    assert ask_metadata_service({ENDPOINT: given}, 0.2) == ("", "")


def test_a_user_who_forbids_it_is_obeyed() -> None:
    with serving(imds) as server:
        said = ask_metadata_service(
            {ENDPOINT: server.url, "AWS_EC2_METADATA_DISABLED": "True"}, 5.0
        )
    assert said == ("", "")
    assert server.asked == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, (None, "")),
        ({f"{DMI}/sys_vendor": "\n"}, (None, "")),
        (LAPTOP, (False, "")),
        ({f"{DMI}/sys_vendor": "Google\n"}, (False, "")),
        (NITRO, (True, "g4dn.xlarge")),
        (XEN, (True, "")),
        (NITRO | {f"{DMI}/product_name": "HVM domU\n"}, (True, "")),
        (NITRO | {f"{DMI}/product_name": "p6-b200.48xlarge\n"}, (True, "p6-b200.48xlarge")),
    ],
)
def test_the_firmware_says_whose_machine_it_is(
    tmp_path: Path, files: dict[str, str], found: tuple[bool | None, str]
) -> None:
    assert firmware(write(tmp_path, files)) == found
