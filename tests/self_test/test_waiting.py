"""The share of the time that started processes waited for a core."""

from __future__ import annotations

import time

import pytest

from trainperf.self_test import experiments as waiting
from trainperf.self_test.experiments import Waiting


def test_what_the_kernel_does_not_count_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "EVERY_S", 0.01)
    monkeypatch.setattr(waiting, "schedstat", lambda folder: None)
    began = time.monotonic()
    with Waiting() as opened:
        time.sleep(0.1)
    assert opened.share(began) is None


def test_a_moment_in_which_nothing_was_read_has_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "EVERY_S", 0.01)
    monkeypatch.setattr(waiting, "schedstat", lambda folder: (1, 0))
    began = time.monotonic()
    with Waiting() as opened:
        time.sleep(0.1)
    assert opened.share(began) == 0.0
    assert opened.share(began - 2.0, began - 1.0) is None
