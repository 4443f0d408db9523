"""TensorFlow's profiler around steps: the Chrome trace that it leaves, with a mark of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from trainperf.child.tensorflow.graph_lines import TensorFlowTracer


@pytest.fixture
def tracer() -> Any:
    driver: Any = SimpleNamespace(
        sync=lambda: None,
        loops=SimpleNamespace(marked={}),
        device=SimpleNamespace(asynchronous=False),
    )
    return TensorFlowTracer(driver)


def test_a_profiler_of_the_scripts_is_left_alone(tracer, tmp_path):
    tf.profiler.experimental.start(str(tmp_path / "own"))
    try:
        assert tracer.refusal(asked=True) == "the script's own profiler is on"
        with pytest.raises(tf.errors.AlreadyExistsError):
            tracer.start()  # also where it was started another way
    finally:
        tf.profiler.experimental.stop(save=False)
    assert tracer.refusal(asked=True) == ""
