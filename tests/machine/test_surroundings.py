"""Surroundings of a run are told as they were found."""

from __future__ import annotations

import pytest

from evidence.test_objects_seen import LOOP, of, sums
from fixes.boxes import box
from trainperf.machine import after_run
from trainperf.machine.storage import reads
from trainperf.machine.storage.reads import NO_NAMES


def test_steps_that_read_from_s3_and_open_no_files_lack_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reads, "probe", lambda *_, **__: ((), NO_NAMES))
    by_s3 = of([*LOOP, sums(119.0, 300, 6.0)])

    assert after_run.probe_storage(of(LOOP), box()).reads_reason == NO_NAMES
    assert after_run.probe_storage(by_s3, box()).reads_reason == ""
