"""Surroundings of a run are told as they were found."""

from __future__ import annotations

import pytest

from evidence.test_objects_seen import LOOP, of, sums
from fixes.boxes import box
from trainperf.machine import after_run
from trainperf.machine.storage import reads
from trainperf.machine.storage.reads import NO_FILES, NO_NAMES


@pytest.mark.parametrize("why", [NO_FILES, NO_NAMES])
def test_steps_that_read_from_s3_and_open_no_files_are_not_said_to_have_their_data_in_memory(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(reads, "probe", lambda *_, **__: ((), why))
    by_s3 = of([*LOOP, sums(119.0, 300, 6.0)])

    assert after_run.probe_storage(of(LOOP), box()).reads_reason == why
    assert after_run.probe_storage(by_s3, box()).reads_reason == after_run.FROM_S3
