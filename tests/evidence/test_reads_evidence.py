"""Opens and bytes are divided by the steps that took them."""

from __future__ import annotations

from typing import Any

import pytest

from recordings import FIT, observed
from trainperf.evidence import reads
from trainperf.model import Measure, Missing, Reads, Stage, Volume

RESIDENT = Measure(0.010, 30, (0.010,) * 3, low=0.0098, high=0.0102)
DISK = Volume("/data", "ebs", "ext4", "nvme1n1")
FILES = Reads(DISK, 1000, 640, 4.0, (1000, 1000, 1000), 1000 * 10_000, seen_by="Python opened them")


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


def test_without_an_event_nothing_is_added() -> None:
    assert reads([FILES], observed(FIT), RESIDENT) == (FILES,)
    assert reads([], loop(event()), RESIDENT) == ()


def test_steps_that_got_replayed_batches_read_nothing() -> None:
    one = only(reads([FILES], loop(event()), RESIDENT))

    assert one.opens_per_step == pytest.approx(640 / 20)
    assert one.bytes_per_step == pytest.approx(32 * 10_000)  # less than the 400,000 read
    assert one.bytes_basis == "opens times mean size"
    assert one.stored_per_step == pytest.approx(40_000)
    assert one.needed_bytes_s == pytest.approx(32 * 10_000 / 0.010)


def test_of_large_files_only_what_was_read_counts() -> None:
    one = only(reads([FILES], loop(event(read_bytes=2_000_000)), RESIDENT))

    assert one.bytes_per_step == pytest.approx(100_000)
    assert one.bytes_basis == "by its read calls"


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


def test_without_counters_or_a_resident_step_numbers_are_missing() -> None:
    one = only(reads([FILES], loop(event(opens=0, counted=False)), RESIDENT))
    assert (one.bytes_per_step, one.stored_per_step) == (None, None)

    one = only(reads([FILES], loop(event()), Missing("not taken")))
    assert one.bytes_per_step is not None
    assert one.needed_bytes_s is None


def test_a_step_of_two_batches_reads_twice_as_much() -> None:
    one = only(reads([FILES], loop(event(), batches_per_step=2), RESIDENT))

    assert one.opens_per_step == pytest.approx(640 / 15)


def test_files_read_by_a_graph_are_those_of_the_stage_that_reads_them() -> None:
    missing = Missing("not timed")
    stages = (
        Stage(0, "list_files", missing, missing, elements_per_step=32.0),
        Stage(1, "map", missing, missing, elements_per_step=32.0, ops=("DecodeJpeg", "ReadFile")),
        Stage(2, "batch", missing, missing, elements_per_step=1.0),
    )

    one = only(reads([FILES], loop(event(opens=0)), RESIDENT, stages))

    assert one.opens_per_step == 32.0


def test_two_volumes_share_what_was_read_by_their_opens() -> None:
    other = Reads(DISK, 10, 160, 4.0, (1, 1, 1), 10 * 100_000)

    first, second = reads([FILES, other], loop(event(opens=800)), RESIDENT)

    assert first.opens_per_step == pytest.approx(32)
    assert second.opens_per_step == pytest.approx(8)
