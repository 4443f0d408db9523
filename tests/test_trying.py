"""Further tries are counted."""

from __future__ import annotations

from trying import RETRIED, tries


def test_only_tries_after_the_first_are_counted(monkeypatch) -> None:
    monkeypatch.setattr("trying.RETRIED", type(RETRIED)())
    import trying

    for attempt in tries("once", 3):
        if attempt == 0:
            break
    for attempt in tries("twice", 3):
        if attempt == 1:
            break
    assert dict(trying.RETRIED) == {"twice": 1}
