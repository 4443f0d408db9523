"""Buckets are asked for their regions once, and nothing that S3 may answer holds a run up."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest
from aws_fakes import serving

from trainperf.machine import after_run
from trainperf.machine.after_run import with_regions
from trainperf.model import Objects

DATA = Objects("data", prefix="train/", requests=10)


def asked(
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[BaseHTTPRequestHandler, str], tuple[int, str]],
    *objects: Objects,
) -> tuple[list[str | None], list[str]]:
    """The regions that are found where S3 gives such answers, and what it was asked."""
    with serving(answer) as server:
        place, servers = server.url.removeprefix("http://"), []

        class Connection(http.client.HTTPConnection):
            def __init__(self, name: str, timeout: float, **_: object) -> None:
                servers.append(name)
                super().__init__(place, timeout=timeout)

        monkeypatch.setattr(http.client, "HTTPSConnection", Connection)
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setattr("urllib.request._opener", None)
        found = with_regions(objects, "eu-north-1")
    assert set(servers) <= {"s3.eu-north-1.amazonaws.com"}
    return [bucket.region for bucket in found], [path for _, path, _, _ in server.asked]


def regional(status: int) -> Callable[[BaseHTTPRequestHandler, str], tuple[int, str]]:
    def answer(request: BaseHTTPRequestHandler, body: str) -> tuple[int, str]:
        request.headers_given = {"x-amz-bucket-region": "ap-south-1"}
        return status, ""

    return answer


@pytest.mark.parametrize("status", [200, 301, 403])
def test_any_answer_says_where_the_bucket_is(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    assert asked(monkeypatch, regional(status), DATA) == (["ap-south-1"], ["/data"])


def test_it_is_asked_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setattr("urllib.request._opener", None)
        monkeypatch.setattr(after_run, "REGIONS_S", 1.0)
        with_regions([DATA], "eu-north-1")
        proxy.settimeout(10)
        assert proxy.accept()[0].recv(99).startswith(b"CONNECT s3.eu-north-1.amazonaws.com:443 ")


def test_a_store_of_ones_own_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    minio = replace(DATA, endpoint="http://minio:9000")
    assert asked(monkeypatch, regional(200), minio) == ([None], [])


def test_a_store_that_does_not_tell_or_never_answers_leaves_the_region_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert asked(monkeypatch, lambda request, body: (404, ""), DATA) == ([None], ["/data"])
    monkeypatch.setattr(after_run, "REGIONS_S", 0.2)
    found, _ = asked(monkeypatch, lambda request, body: (time.sleep(2), (200, ""))[1], DATA)
    assert found == [None]
