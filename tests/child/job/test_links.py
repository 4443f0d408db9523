"""The speed of a machine's memory and loopback."""

import threading

import pytest

from trainperf.child.tensorflow.strategies import all_reduce


def test_memory_is_copied_at_a_rate_that_can_be():
    assert 1e6 < all_reduce.copy_bytes_s() < 1e13


def test_the_loopback_carries_bytes_and_leaves_no_thread():
    before = set(threading.enumerate())
    assert 1e6 < all_reduce.loopback_bytes_s() < 1e12
    assert set(threading.enumerate()) <= before


def test_a_loopback_that_breaks_is_not_taken_for_a_slow_one(monkeypatch):
    monkeypatch.setattr(
        all_reduce, "_send", lambda address: all_reduce.socket.create_connection(address)
    )
    with pytest.raises(OSError, match="broke"):
        all_reduce.loopback_bytes_s()
