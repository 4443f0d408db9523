"""A process waits for its own devices, not for those of other workers."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

from trainperf.child.tensorflow import loops as tf_clock

REMOTE = "/job:localhost/replica:0/task:01/device:CPU:0"
"""Begins like the own one, which is task 0."""


def test_another_workers_devices_are_not_waited_for(monkeypatch):
    own = tf.config.list_logical_devices("CPU")
    visited = []
    monkeypatch.setattr(tf_clock, "KIND", "CPU")
    from tensorflow.python.eager import context

    both = [*own, SimpleNamespace(name=REMOTE)]
    monkeypatch.setattr(context.context(), "list_logical_devices", lambda kind=None: both)
    from tensorflow.python.framework import ops

    device_of = ops.device
    monkeypatch.setattr(ops, "device", lambda name: visited.append(name) or device_of(name))
    tf_clock.TensorFlowClock(time.monotonic).wait()
    assert visited == [one.name for one in own]


@pytest.mark.parametrize("shape", [dict, tuple])
def test_a_zip_is_the_users_own_dataset(shape):
    from trainperf.child.tensorflow.batches import undistributed

    one = tf.data.Dataset.range(3)
    both = {"x": one, "y": one} if shape is dict else (one, one)
    zipped = tf.data.Dataset.zip(both)
    assert undistributed(zipped) is zipped
