"""Opens and bytes are divided by the steps that took them."""

from __future__ import annotations

from typing import Any

import pytest

from recordings import FIT, observed
from trainperf.evidence import reads
from trainperf.model import Measure, Reads, Volume

RESIDENT = Measure(0.010, 30, (0.010,) * 3, low=0.0098, high=0.0102)
DISK = Volume("/data", "ebs", "ext4", "nvme1n1")
FILES = Reads(DISK, 1000, 640, 4.0, (1000, 1000, 1000), 1000 * 10_000)


def loop(event: dict[str, Any], *more: dict[str, Any], **facts: Any) -> Any:
    """A loop of ten real and ten resident steps, and a drain of ten batches."""
    steps = [{"e": "step", "p": "real", "b": 1, "s": 0.0, "t": 2.0, "w": 0.0}] * 9
    steps += [{"e": "step", "p": "first", "b": 1, "s": 0.0, "t": 2.0, "w": 0.0}]
    steps += [{"e": "step", "p": "resident", "b": 2, "s": 0.0, "t": 3.0, "w": 0.0}] * 10
    steps += [{"e": "step", "p": "warm_up", "b": 0, "s": 0.0, "t": 0.5, "w": 0.0}] * 7
    drain = {"e": "input", "b": 3, "s": 3.0, "t": 4.0, "marks": [[0.1, 4], [0.2, 10]]}
    described = {"e": "facts", **facts}
    return observed(FIT, *steps, drain, {"t": 5.0, **event}, described, *more)


def event(**fields: Any) -> dict[str, Any]:
    given = {
        "e": "reads",
        "since": 1.0,
        "opens": 640,
        "read_bytes": 8_000_000,
        "stored_bytes": 800_000,
        "counted": True,
    }
    return {**given, **fields}


def only(found: tuple[Reads, ...]) -> Reads:
    (one,) = found
    return one


def test_steps_that_got_replayed_batches_read_nothing() -> None:
    one = only(reads([FILES], loop(event()), RESIDENT))

    assert one.opens_per_step == pytest.approx(640 / 20)
    assert one.bytes_per_step == pytest.approx(32 * 10_000)  # less than the 400,000 read
    assert one.stored_per_step == pytest.approx(40_000)
    assert one.needed_bytes_s == pytest.approx(32 * 10_000 / 0.010)


def test_a_file_that_is_opened_and_mapped_in_each_step_is_not_taken_for_read() -> None:
    one = only(reads([FILES], loop(event(read_bytes=4000)), RESIDENT))

    assert one.opens_per_step == pytest.approx(32)
    assert one.bytes_per_step is None
    assert one.needed_bytes_s is None


def test_of_files_that_workers_opened_the_size_still_counts() -> None:
    one = only(reads([FILES], loop(event(read_bytes=4000, workers=2)), RESIDENT))

    assert one.bytes_per_step == pytest.approx(32 * 10_000)


def test_a_mapping_is_not_counted_and_not_guessed() -> None:
    one = only(reads([FILES], loop(event(opens=0, read_bytes=4000)), RESIDENT))

    assert one.opens_per_step is None
    assert one.bytes_per_step is None
    assert one.needed_bytes_s is None
