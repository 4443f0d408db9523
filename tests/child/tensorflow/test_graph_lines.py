"""Operators of compiled graphs by the lines that made them, under TensorFlow's own tracer."""

from __future__ import annotations

import inspect
import re
import weakref
from typing import Any

import pytest
import tensorflow as tf

from kit.child import FakeProcess
from trainperf.child.process import frames
from trainperf.child.tensorflow.graph_lines import Graphs, Origins, lines_of

SIZE = 64
w = tf.Variable(tf.random.normal((SIZE, SIZE)))


@tf.function
def normalised(x):
    return tf.reduce_logsumexp(tf.sin(x), -1)  # in a function


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        h = tf.matmul(x, w)
        for _ in tf.range(3):
            h = tf.tanh(tf.matmul(h, w))  # in a loop
        far = tf.square(h[:, None] - h[None, :])  # between pairs
        near = tf.exp(-tf.reduce_sum(far, -1))  # of a distance
        if tf.reduce_sum(near) > 0:
            near = tf.sqrt(near + 1)  # in a branch
        loss = tf.reduce_mean(near) + tf.reduce_mean(normalised(h))
    (gradient,) = tape.gradient(loss, [w])
    w.assign_sub(1e-9 * gradient)
    return loss


class Gone: ...


def input_of(dataset: Any) -> Any:
    return dataset.map(lambda x: tf.exp(tf.sin(x) + tf.cos(x)))


@pytest.fixture(scope="module")
def traced() -> dict[str, Any]:
    """Three steps, beside an input whose own operators are in the trace as well."""
    from tensorflow.python.profiler import trace
    from tensorflow.python.profiler.internal import _pywrap_profiler
    from tensorflow.tsl.profiler.protobuf import trace_events_pb2

    frames.is_users.cache_clear()
    origins = Origins(FakeProcess())
    dataset = input_of(tf.data.Dataset.from_tensors(tf.random.normal((256, 64))).repeat())
    batches = iter(dataset.prefetch(2))
    with origins.noting():
        step(next(batches))
    session = _pywrap_profiler.ProfilerSession()
    session.start("", {"host_tracer_level": 2, "python_tracer_level": 0})
    for number in range(3):
        with trace.Trace(f"train {number}", step_num=number, _r=1):
            step(next(batches))
    gone = Gone()
    proxy = weakref.proxy(gone)  # what asks it for its class raises
    del gone
    found = lines_of(trace_events_pb2.Trace.FromString(session.stop()), "train", Graphs(origins))
    assert found is not None
    del proxy
    return found


def seconds(traced: dict[str, Any], comment: str) -> float:
    return sum(line["seconds"] for line in traced["lines"] if comment in line["text"])


def test_what_the_input_computes_is_on_no_line(traced):
    """But for what tf.data was at when the trace began: nothing tells whose that is."""
    head = inspect.getsourcelines(input_of)[1]
    of_input = [line for line in traced["lines"] if line["where"]["line"] in (head, head + 1)]
    assert sum(line["seconds"] for line in of_input) < 0.05 * traced["all_seconds"]


def test_a_gradient_is_on_the_line_of_what_it_derives(traced):
    """One scope holds both: by their names alone neither gradient could be told."""
    assert seconds(traced, "between pairs") > 0.5 * traced["all_seconds"]
    assert seconds(traced, "tape.gradient(") < 0.05 * traced["all_seconds"]


@pytest.mark.parametrize("comment", ["in a function", "in a loop", "in a branch", "of a distance"])
def test_operators_are_found_in_what_was_inlined(traced, comment):
    assert seconds(traced, comment) > 0


def test_all_operators_are_known_and_fit_into_the_step(traced):
    known = sum(line["seconds"] for line in traced["lines"])
    assert 0.97 * traced["all_seconds"] < known <= 1.0001 * traced["all_seconds"]
    assert traced["steps"] == 3
    assert 0 < traced["running_s"] <= traced["step_s"]
    (loop,) = [line for line in traced["lines"] if "in a loop" in line["text"]]
    assert loop["where"]["function"] == "step"
    assert loop["operators"] >= 6


def test_what_a_loop_runs_for_its_gradient_is_of_the_layer_around_it():
    origins = Origins(FakeProcess())

    @tf.function
    def recurrent(x):
        with tf.GradientTape() as tape, tf.name_scope("cell"):
            origins.entered("cell", None)
            h = x
            for _ in tf.range(3):
                h = tf.tanh(tf.matmul(h, w))
            loss = tf.reduce_mean(h)
        return tape.gradient(loss, [w])

    recurrent(tf.random.normal((8, SIZE)))
    graphs = Graphs(origins)._graphs.items()
    anew = [graph for name, graph in graphs if re.match("cell_while_body.*_rewritten", name)]
    products = [op for graph in anew for op in graph.get_operations() if op.type == "MatMul"]
    assert {origins.layer(op)[0] for op in products} == {"cell"}
