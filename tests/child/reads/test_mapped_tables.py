"""Tables of `datasets` that are mapped one row at a time are timed."""

from __future__ import annotations

import types
from typing import Any

import pytest

from kit.child import FakeProcess
from trainperf.child.reads import tables


class Dataset:
    """A table of the library, as far as the hook looks at it."""

    def map(self, function: Any = None, with_indices: bool = False, batched: bool = False) -> str:
        """Map it."""
        if function is None:
            raise LookupError
        return f"mapped {batched}"


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    monkeypatch.setattr(Dataset, "map", Dataset.map)
    process = FakeProcess({"leg": None})
    tables.hook(process, types.SimpleNamespace(Dataset=Dataset))
    return process


def test_a_map_of_single_rows_is_recorded_with_its_place(process: FakeProcess) -> None:
    assert Dataset().map(len) == "mapped False"
    (event,) = process.record.of("row_map")
    assert event["seconds"] >= 0
    assert event["where"]["file"] == __file__


def test_a_map_of_many_rows_and_what_we_do_ourselves_are_not(process: FakeProcess) -> None:
    assert Dataset().map(len, batched=True) == "mapped True"
    Dataset().map(len, False, True)
    process.off = True
    Dataset().map(len)
    assert process.record.of("row_map") == []
