"""TensorFlow's profiler around steps: a profile with step marks, and the same as a Chrome trace."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from trainperf.child.tensorflow import planes  # noqa: E402
from trainperf.child.tensorflow.tracer import TensorFlowTracer  # noqa: E402


@pytest.fixture
def tracer(tmp_path: Path) -> Any:
    process = SimpleNamespace(settings={"folder": str(tmp_path)})
    driver: Any = SimpleNamespace(process=process, sync=lambda: None)
    return TensorFlowTracer(driver)


@tf.function  # type: ignore[untyped-decorator]
def product(x: Any) -> Any:
    return tf.reduce_sum(x @ x)


def traced(one: Any, steps: int = 2) -> int:
    x = tf.ones((8, 8))
    product(x)
    one.start()
    for number in range(steps):
        one.step_begins(number)
        product(x)
        one.step_ends()
    return int(one.stop())


def test_a_profiler_of_the_scripts_is_left_alone(tracer, tmp_path):
    tf.profiler.experimental.start(str(tmp_path / "own"))
    try:
        assert tracer.refusal() == "the script's own profiler is on"
        with pytest.raises(tf.errors.AlreadyExistsError):
            tracer.start()  # also where it was started another way
    finally:
        tf.profiler.experimental.stop(save=False)
    assert tracer.refusal() == ""


def test_the_profile_has_marks_by_which_xprof_knows_steps(tracer, tmp_path):
    assert traced(tracer) > 0
    saved = tracer.save(str(tmp_path), "t")
    [path] = Path(saved["profile"]).glob("plugins/profile/*/*.xplane.pb")
    [plane] = [one for one in planes.read(str(path)).planes if one.name == "/host:CPU"]
    told = [
        {plane.stat_metadata[stat.metadata_id].name for stat in event.stats}
        for line in plane.lines
        for event in line.events
        if plane.event_metadata[event.metadata_id].name == "train"
    ]
    assert len(told) == 2
    assert all({"step_num", "_r"} <= each for each in told)


def test_the_same_is_a_chrome_trace(tracer, tmp_path):
    traced(tracer)
    saved = tracer.save(str(tmp_path), "t")
    assert saved["notes"] == []
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    marks = [one for one in events if one["name"].startswith(saved["mark"])]
    assert [(one["name"], one["args"]["step_num"]) for one in marks] == [
        ("step 0", 0),
        ("step 1", 1),
    ]
    assert marks[0]["ts"] + marks[0]["dur"] <= marks[1]["ts"]
    named = {one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert "/host:CPU" in named
    assert all(len(one["name"]) <= planes.LONGEST for one in events)


def test_what_paid_for_the_start_is_removed(tracer, tmp_path):
    traced(tracer, steps=1)
    traced(tracer)
    saved = tracer.save(str(tmp_path), "t")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        Path(saved["profile"]).name,
        "t.json",
    ]


def test_a_profile_that_cannot_be_read_is_kept_all_the_same(tracer, tmp_path, monkeypatch):
    traced(tracer)

    def unknown(*_: object) -> None:
        raise ImportError("no xplane_pb2")

    monkeypatch.setattr(planes, "convert", unknown)
    saved = tracer.save(str(tmp_path), "t")
    assert "events" not in saved
    assert Path(saved["profile"]).is_dir()
    assert "TensorBoard only: ImportError: no xplane_pb2" in saved["notes"][0]
