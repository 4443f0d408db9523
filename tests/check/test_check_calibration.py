"""The fixed piece of work that tells how fast the machine is."""

from __future__ import annotations

import pytest

from trainperf.check import running


def test_the_work_is_timed_on_one_core_and_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BLOCKS", 1)
    took = running.speed(2.0)
    assert took is not None
    assert 0 < took.one_s < 60
    assert 0 < took.all_s < 60


@pytest.mark.parametrize("work", ["raise SystemExit(1)", "print('x')", "print('[]')"])
def test_where_it_cannot_be_timed_there_is_no_speed(
    monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(running, "WORK", work)
    assert running.speed(1.0) is None


def test_work_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "WORK", "import time; time.sleep(99)")
    monkeypatch.setattr(running, "TIMEOUT_S", 0.2)
    assert running.speed(2.0) is None
