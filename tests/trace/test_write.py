"""The file of `--trace`: what is in it, on which clock, how large, and when there is none."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recordings import recording
from traced_files import check_nested, tracks_of
from trainperf.model import Event, GpuSample, HostSample, Recording, Sample, TraceFile
from trainperf.trace import tracer_files, tracks
from trainperf.trace.write import profile_folder, rank_file, write

LOOP: Event = {"e": "loop", "t": 10.0, "kind": "iterator"}
MEASURED: Event = {"e": "measured", "t": 19.0}
SHIFT_US = 4_551_737_615_705.5
"""Kineto's clock began long before the run."""


def op(name: str, ts: float, dur: float, **fields: Any) -> dict[str, Any]:
    """An event of the tracer's, at µs of the run."""
    made = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 77, "tid": 77}
    return made | {"ts": ts + SHIFT_US, "dur": dur} | fields


def mark(number: int, ts: float, dur: float = 900_000.0) -> dict[str, Any]:
    return op(f"ProfilerStep#{number}", ts, dur, cat="user_annotation")


def two_steps() -> list[dict[str, Any]]:
    """A tracer's view of two steps at seconds 20 and 21."""
    return [
        {"ph": "M", "name": "process_name", "pid": 77, "args": {"name": "python"}},
        mark(0, 20e6),
        op("aten::mm", 20.1e6, 500_000.0),
        op("aten::sum", 20.2e6, 100_000.0),
        mark(1, 21e6),
        op("aten::mm", 21.1e6, 500_000.0),
        {"ph": "s", "id": 3, "name": "fwdbwd", "pid": 77, "tid": 77, "ts": 20.1e6 + SHIFT_US},
    ]


LINES = {
    "interval_s": 0.1,
    "places": [["/a/train.py", 9, "main"], ["/a/train.py", 3, "load"], ["/a/train.py", 4, "load"]],
    "threads": [
        {
            "id": 5,
            "name": "MainThread",
            "main": True,
            "samples": [(20.1, (0, 1)), (20.2, (0, 1)), (20.3, (0, 2)), (20.4, (0,))],
        },
        {"id": 6, "name": "feeder", "main": False, "samples": [(20.1, (1,)), (29.0, (1,))]},
    ],
}


def traced(folder: Path, events: Any = None, pid: int = 1, **fields: Any) -> Event:
    """The event of a process that traced two steps; its tracer left `events`."""
    file = folder / f"trace-{pid}.json"
    text = events if isinstance(events, str) else json.dumps({"traceEvents": events or two_steps()})
    file.write_text(text)
    steps = [
        {"n": 0, "begin": 20.0, "end": 20.9, "waits": [(20.0, 20.05)]},
        {"n": 1, "begin": 21.0, "end": 21.9, "waits": []},
    ]
    known = {"steps": steps, "events": str(file), "mark": "ProfilerStep#", "notes": []}
    return {"e": "traced_steps", "t": 22.0, "lines": LINES, **known, **fields}


def run_of(*events: Event, **fields: Any) -> Recording:
    phases = [
        {"e": "phase", "t": 11.0, "p": "warmup", "b": 0},
        {"e": "phase", "t": 12.0, "p": "real", "b": 0},
        {"e": "step", "t": 12.5, "s": 12.0, "p": "real~", "b": 0, "w": 0.1},
        {"e": "step", "t": 13.0, "s": 12.5, "p": "real", "b": 0, "w": 0.1},
        {"e": "phase", "t": 19.5, "p": "trace", "b": 0},
    ]
    return recording(LOOP, *phases, MEASURED, *events, **fields)


def events_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    whole = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return list(whole["traceEvents"])


def seconds(one: dict[str, Any]) -> tuple[float, float]:
    return round(one["ts"] / 1e6, 6), round(one["dur"] / 1e6, 6)


# Where there is nothing to write, nothing is written.


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([{"e": "import", "name": "torch"}], "no training loop was seen"),
        ([LOOP], "the script was over before its steps were measured"),
        ([LOOP, MEASURED], "the run was over before a step could be traced"),
        (
            [LOOP, MEASURED, {"e": "tracing", "limit_s": 9.0}],
            "the run was over before the traced steps were",
        ),
        (
            [LOOP, {"e": "missing", "what": "a trace of a few steps", "reason": "it is busy"}],
            "it is busy",
        ),
    ],
)
def test_without_a_traced_step_there_is_a_reason_and_no_file(events, reason, tmp_path):
    file = tmp_path / "t.json"
    assert write(recording(*events), file) == TraceFile(str(file), reason=reason)
    assert not file.exists()


def test_a_file_that_cannot_be_written_is_a_reason(tmp_path):
    file = tmp_path / "gone" / "t.json"
    trace = write(run_of(traced(tmp_path)), file)
    assert trace.reason == f"{file} cannot be written: No such file or directory"
    assert trace.steps == 0


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ("{not json", "what it wrote is no JSON"),
        ("[]", "what it wrote is no trace"),
        ([op("aten::mm", 20e6, 1.0)], "it has no mark of a step"),
    ],
)
def test_a_trace_that_cannot_be_read_leaves_what_trainperf_saw(events, why, tmp_path):
    trace = write(run_of(traced(tmp_path, events)), tmp_path / "t.json")
    assert trace.steps == 2
    [note] = trace.notes
    assert note.startswith(f"the tracer's own events are not in it: {why}")
    assert set(tracks_of(events_of(tmp_path / "t.json"))) >= {"traced steps"}


# What is in it.


def test_the_tracks_of_trainperf_stand_beside_those_of_the_tracer(tmp_path):
    trace = write(run_of(traced(tmp_path)), tmp_path / "t.json")
    assert (trace.steps, trace.processes, trace.notes, trace.reason) == (2, 1, (), "")
    events = events_of(tmp_path / "t.json")
    check_nested(events)
    found = tracks_of(events)
    assert {one["name"]: seconds(one) for one in found["phases of the diagnosis"]} == {
        "warm-up": (11.0, 1.0),
        "real": (12.0, 7.5),
        "trace": (19.5, 2.5),
    }
    assert [one["name"] for one in found["steps of the loop"]] == ["real, settling", "real"]
    assert [(one["name"], *seconds(one)) for one in found["traced steps"]] == [
        ("step 0", 20.0, 0.9),
        ("waiting for data", 20.0, 0.05),
        ("step 1", 21.0, 0.9),
    ]
    assert [one["name"] for one in found[""]] == [
        *("ProfilerStep#0", "aten::mm", "aten::sum", "ProfilerStep#1", "aten::mm"),
    ]
    assert not (tmp_path / "trace-1.json").exists(), "what the tracer left is removed"


def test_the_tracers_events_are_on_the_clock_of_the_run(tmp_path):
    write(run_of(traced(tmp_path)), tmp_path / "t.json")
    found = [one for one in events_of(tmp_path / "t.json") if one["name"] == "aten::mm"]
    assert [seconds(one) for one in found] == [(20.1, 0.5), (21.1, 0.5)]
    [flow] = [one for one in events_of(tmp_path / "t.json") if one["ph"] == "s"]
    assert flow["ts"] == pytest.approx(20.1e6)


def test_the_users_lines_are_slices_one_in_another(tmp_path):
    write(run_of(traced(tmp_path)), tmp_path / "t.json")
    found = tracks_of(events_of(tmp_path / "t.json"))
    every = "(sampled every 100 ms)"
    assert [(one["name"], *seconds(one)) for one in found[f"your lines, main thread {every}"]] == [
        ("train.py:9 main", 20.1, 0.4),
        ("train.py:3 load", 20.1, 0.2),
        ("train.py:4 load", 20.3, 0.1),
    ]
    feeder = found[f"your lines, feeder {every}"]
    assert [seconds(one) for one in feeder] == [(20.1, 0.5), (29.0, 0.1)], "unseen for seconds"
    assert feeder[0]["args"] == {"line": "/a/train.py:3"}


def test_samples_of_the_machine_are_counters(tmp_path):
    host = HostSample(1.5, 2.0, 3_000_000_000, 1, 4)
    gpu = GpuSample(0, utilization_percent=83.0, memory_used=8_000_000_000)
    run = run_of(traced(tmp_path), samples=(Sample(20.0, host, (gpu,)), Sample(21.0, None)))
    write(run, tmp_path / "t.json")
    counters = [one for one in events_of(tmp_path / "t.json") if one["ph"] == "C"]
    assert {one["name"]: one["args"][one["name"]] for one in counters} == {
        "CPU of the script (cores)": 1.5,
        "CPU of the machine (cores)": 2.0,
        "memory of the script (GB)": 3.0,
        "GPU 0 utilisation (%)": 83.0,
        "GPU 0 memory (GB)": 8.0,
    }


def test_of_a_run_of_very_many_steps_only_the_phases_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(tracks, "MOST_STEPS", 1)
    write(run_of(traced(tmp_path)), tmp_path / "t.json")
    found = tracks_of(events_of(tmp_path / "t.json"))
    assert "steps of the loop" not in found
    assert found["phases of the diagnosis"]


def test_marks_that_cross_a_call_get_a_track_of_their_own(tmp_path):
    crossing = [*two_steps(), op("Optimizer.step", 20.8e6, 300_000.0)]
    write(run_of(traced(tmp_path, crossing)), tmp_path / "t.json")
    events = events_of(tmp_path / "t.json")
    check_nested(events)
    assert [one["name"] for one in tracks_of(events)["steps"]] == [
        "ProfilerStep#0",
        "ProfilerStep#1",
    ]


def test_a_name_that_ends_in_gz_is_compressed_and_the_same_each_time(tmp_path):
    plain, packed = tmp_path / "t.json", tmp_path / "t.json.gz"
    run = run_of(traced(tmp_path))
    write(run, plain)
    traced(tmp_path)
    write(run, packed)
    assert events_of(packed) == events_of(plain)
    first = packed.read_bytes()
    traced(tmp_path)
    write(run, packed)
    assert packed.read_bytes() == first


def test_what_is_too_much_is_cut_at_a_step_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(tracer_files, "MOST_EVENTS", 6)
    trace = write(run_of(traced(tmp_path)), tmp_path / "t.json")
    assert trace.notes == ("the tracer saw 7 events, more than fit; kept are those of 1 step",)
    names = [one["name"] for one in tracks_of(events_of(tmp_path / "t.json"))[""]]
    assert names == ["ProfilerStep#0", "aten::mm", "aten::sum"]


def test_a_file_of_the_tracers_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tracer_files, "MOST_BYTES", 10)
    trace = write(run_of(traced(tmp_path)), tmp_path / "t.json")
    assert "more than can be read" in trace.notes[0]


# Several processes.


def ranks(tmp_path: Path, **fields: Any) -> Recording:
    one, other = (
        run_of({"e": "rank", "rank": n}, traced(tmp_path, pid=n, **fields)).events[1]
        for n in (0, 1)
    )
    return replace(run_of(), events={9: other, 8: one})


def test_ranks_share_a_file_and_what_they_number_is_apart(tmp_path):
    trace = write(ranks(tmp_path), tmp_path / "t.json")
    assert (trace.steps, trace.processes) == (2, 2)
    events = events_of(tmp_path / "t.json")
    check_nested(events)
    names = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert sorted(names) == [
        *("rank 0: python", "rank 0: trainperf", "rank 1: python", "rank 1: trainperf"),
    ]
    marks = [one for one in events if one["name"] == "ProfilerStep#0"]
    assert len({one["pid"] for one in marks}) == 2
    assert len({one["id"] for one in events if one["ph"] == "s"}) == 2


def test_a_note_of_a_rank_says_of_which(tmp_path):
    trace = write(ranks(tmp_path, notes=["it was late"]), tmp_path / "t.json")
    assert trace.notes == ("rank 0: it was late", "rank 1: it was late")


def test_a_rank_of_its_own_has_a_file_of_its_own():
    assert rank_file(Path("/a/t.json.gz"), 3) == Path("/a/t-rank3.json.gz")


# The profile for TensorBoard.


def profile(folder: Path, name: str) -> str:
    run = folder / name / "plugins" / "profile" / "2026_11_23"
    run.mkdir(parents=True)
    (run / "host.xplane.pb").write_bytes(name.encode())
    return str(folder / name)


def test_the_profile_goes_beside_the_file(tmp_path):
    own = tmp_path / "run"
    own.mkdir()
    run = run_of(traced(own, profile=profile(own, "p")))
    trace = write(run, tmp_path / "t.json.gz")
    assert trace.profile == str(tmp_path / "t-tensorboard")
    found = tmp_path / "t-tensorboard" / "plugins" / "profile" / "2026_11_23" / "host.xplane.pb"
    assert found.read_bytes() == b"p"
    assert not (own / "p").exists()


def test_the_profiles_of_ranks_are_hosts_of_one_run(tmp_path):
    own = tmp_path / "run"
    own.mkdir()
    events = {
        n: run_of(
            {"e": "rank", "rank": n}, traced(own, pid=n, profile=profile(own, f"p{n}"))
        ).events[1]
        for n in (0, 1)
    }
    write(replace(run_of(), events=events), tmp_path / "t.json")
    found = sorted(path.name for path in profile_folder(tmp_path / "t.json").rglob("*.pb"))
    assert found == ["rank0-host.xplane.pb", "rank1-host.xplane.pb"]
