"""The speed of a machine's memory and loopback."""

import threading

import pytest

from trainperf.child.job import links


def test_memory_is_copied_at_a_rate_that_can_be():
    assert 1e6 < links.copy_bytes_s() < 1e13


def test_the_loopback_carries_bytes_and_leaves_no_thread():
    before = set(threading.enumerate())
    assert 1e6 < links.loopback_bytes_s() < 1e12
    assert set(threading.enumerate()) <= before


def test_a_loopback_that_breaks_is_not_taken_for_a_slow_one(monkeypatch):
    monkeypatch.setattr(links, "_send", lambda address: links.socket.create_connection(address))
    with pytest.raises(OSError, match="broke"):
        links.loopback_bytes_s()
