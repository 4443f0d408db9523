"""Whatever bytes there are in records, settings and texts: read, or refused in a line."""

from __future__ import annotations

import copy
import json
import math
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ranks.test_merging import leave
from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.model import Event
from trainperf.ranks import records
from trainperf.ranks.merge import merge
from trainperf.report.plain import no_commands, one_line, plain, to_ascii
from trainperf.run.event_files import EventFiles, is_event
from trainperf.settings import Settings, load_settings

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
few = settings(quick, max_examples=25)

numbers = st.floats() | st.integers(-(10**20), 10**20)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=8)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def refused(error: TrainperfError) -> None:
    """Assert that an error is told in words, in a line of its own."""
    assert str(error).strip()
    assert "Traceback" not in str(error)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


# ---------------------------------------------------------------------------- records

lines = st.one_of(
    st.binary(max_size=40).filter(lambda line: b"\n" not in line),
    values.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries({"e": leaves, "t": leaves}).map(lambda one: json.dumps(one).encode()),
)


@quick
@given(st.lists(lines, max_size=8), st.lists(st.integers(0, 200), max_size=4))
@example([b"[" * 3000, b'{"e": "x", "t": 1e999}', b'{"e": "x", "t": ' + b"9" * 5000 + b"}"], [7])
def test_a_record_is_read_whatever_stands_in_it(said: list[bytes], cuts: list[int]) -> None:
    good = [{"e": "step", "t": float(n), "n": n} for n in range(len(said) + 1)]
    data = b"".join(
        json.dumps(one).encode() + b"\n" + line + b"\n"
        for one, line in zip(good, [*said, b""], strict=True)
    )
    taken: list[Event] = []
    with folder() as own:
        files = EventFiles(own, taken.append)
        for cut in (*sorted(cuts), len(data)):  # as it is written, bit by bit
            (own / "events-7.jsonl").write_bytes(data[:cut])
            files.read()
    assert all(is_event(one) for one in taken)
    assert [one["n"] for one in taken if one in good] == list(range(len(good)))


@quick
@given(st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
def test_a_file_that_is_no_report_is_refused(data: bytes) -> None:
    with folder() as own:
        (own / "diagnosis.json").write_bytes(data)
        for read in (store.load, store.load_recording):
            with pytest.raises(TrainperfError):
                read(own / "diagnosis.json")


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a JSON value, by the keys that lead there."""
    yield at
    inner = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else inner:
        yield from places(each, (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """The value with another one at a place."""
    if not at:
        return new
    changed = copy.copy(value)
    changed[at[0]] = put(value[at[0]], at[1:], new)
    return changed


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("job")
    for rank in range(2):
        leave(made, rank, 2)
    return made


@few
@given(st.data())
@pytest.mark.parametrize("name", [records.RANK_FILE, store.RECORDING_FILE])
def test_a_job_is_merged_whatever_one_rank_left(job: Path, name: str, data: st.DataObject) -> None:
    file = records.folder_of(job, 1) / name
    whole = file.read_bytes()
    value = json.loads(whole)
    at = data.draw(st.sampled_from(sorted(places(value), key=str)))
    try:
        file.write_text(json.dumps(put(value, at, data.draw(values))))
        merged = merge(job)
        assert merged.evidence.parallel_ is not None
        assert 0 in [one.rank for one in merged.evidence.parallel_.processes]
    except TrainperfError as error:
        refused(error)
    finally:
        file.write_bytes(whole)


# --------------------------------------------------------------------------- settings

NAMES = [
    "budget", "measure", "extra", "stall", "full-run", "trials", "sequential",
    "allow-semantic", "quiet", "output-dir", "json", "patch", "fail-on", "ignore", "only",
    "price-per-hour", "output-format", "budget_s", "buget",
]  # fmt: skip
written = st.one_of(
    st.integers().map(str),
    st.floats().map(lambda value: repr(value).replace("e+", "e")),
    st.booleans().map(lambda value: str(value).lower()),
    st.text(max_size=12).map(json.dumps),
    st.lists(st.text(max_size=6), max_size=3).map(json.dumps),
    st.text(max_size=12),
)


def checked(found: Settings) -> None:
    """Assert that settings are such as a run can be made with."""
    times = (found.budget_s, found.stall_s, found.measure_s, found.extra_s)
    assert all(one is None or (math.isfinite(one) and one > 0) for one in times), found
    assert found.price_per_hour is None or math.isfinite(found.price_per_hour)
    assert isinstance(found.fail_on, str) or math.isfinite(found.fail_on)


@quick
@given(st.dictionaries(st.sampled_from(NAMES), written, max_size=4))
@example({"budget": json.dumps("9" * 400)})
@example({"budget": "1" + "0" * 400})
@example({"price-per-hour": "1" + "0" * 400})
@example({"stall": "1" + "0" * 5000})
def test_settings_of_a_project_are_read_or_refused(table: dict[str, str]) -> None:
    text = "[tool.trainperf]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
    with folder() as own:
        (own / "pyproject.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
        try:
            checked(load_settings(own, {}))
        except TrainperfError as error:
            refused(error)


# ------------------------------------------------------------------------- foreign text

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
odd = st.text(alphabet="\x1b\x9b\x07\x90[];?0m2JhP\\ab\r\n\t:#\u202e\u2066\ud800 ", max_size=24)


@settings(quick, max_examples=200)
@given(odd | st.text(max_size=24))
def test_a_text_that_was_made_safe_holds_no_control_and_stays_as_it_is(text: str) -> None:
    safe = plain(text)
    assert not CONTROLS.search(safe)
    assert plain(safe).split() == safe.split()
    assert "\n" not in one_line(text)
    assert to_ascii(safe).isascii()
    safe.encode("utf-8")


@quick
@given(odd)
def test_no_text_that_was_made_safe_becomes_a_command(text: str) -> None:
    printed = no_commands(plain(text))
    assert not re.search(r"^\s*::", printed, re.MULTILINE)
    assert "##[" not in printed
