"""Further tries are counted."""

from __future__ import annotations

from kit.processes import RETRIED, tries


def test_only_tries_after_the_first_are_counted(monkeypatch) -> None:
    monkeypatch.setattr("kit.processes.RETRIED", type(RETRIED)())
    from kit import processes

    for attempt in tries("once", 3):
        if attempt == 0:
            break
    for attempt in tries("twice", 3):
        if attempt == 1:
            break
    assert dict(processes.RETRIED) == {"twice": 1}
