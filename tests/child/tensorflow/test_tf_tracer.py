"""TensorFlow's profiler around steps: the Chrome trace that it leaves, with a mark of each."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from trainperf.child.tensorflow.tracer import TensorFlowTracer  # noqa: E402


@pytest.fixture
def tracer() -> Any:
    driver: Any = SimpleNamespace(sync=lambda: None)
    return TensorFlowTracer(driver)


@tf.function  # type: ignore[untyped-decorator]
def product(x: Any) -> Any:
    return tf.reduce_sum(x @ x)


def test_a_profiler_of_the_scripts_is_left_alone(tracer, tmp_path):
    tf.profiler.experimental.start(str(tmp_path / "own"))
    try:
        assert tracer.refusal() == "the script's own profiler is on"
        with pytest.raises(tf.errors.AlreadyExistsError):
            tracer.start()  # also where it was started another way
    finally:
        tf.profiler.experimental.stop(save=False)
    assert tracer.refusal() == ""


def test_the_steps_are_marked_and_what_ran_stands_in_them(tracer, tmp_path):
    x = tf.ones((8, 8))
    product(x)
    tracer.start()
    for number in range(2):
        with tracer.step(number):
            product(x)
    tracer.stop()
    assert tracer.save(str(tmp_path / "t.json")) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    one, two = (event for event in events if event["name"].startswith("train"))
    assert (one["name"], two["name"]) == ("train 0", "train 1")
    ends = one["ts"] + one["dur"]
    assert ends <= two["ts"]
    within = {event["name"] for event in events if one["ts"] <= event.get("ts", 0) < ends}
    assert "product" in within
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert "/host:CPU" in named
