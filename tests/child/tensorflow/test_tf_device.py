"""A process waits for its own devices, not for those of other workers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

tf = pytest.importorskip("tensorflow")

from trainperf.child.tensorflow import device  # noqa: E402

REMOTE = "/job:worker/replica:0/task:1/device:CPU:0"


def test_another_workers_devices_are_not_waited_for(monkeypatch):
    own = tf.config.list_logical_devices("CPU")
    visited = []
    monkeypatch.setattr(device, "KIND", "CPU")
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind=None: [*own, SimpleNamespace(name=REMOTE)]
    )
    from tensorflow.python.framework import ops

    device_of = ops.device
    monkeypatch.setattr(ops, "device", lambda name: visited.append(name) or device_of(name))
    device.TensorFlowDevice().wait()
    assert visited == [one.name for one in own]


def test_without_a_gpu_there_is_nothing_to_wait_for(monkeypatch):
    from tensorflow.python.ops import gen_sync_ops

    monkeypatch.setattr(gen_sync_ops, "SyncDevice", lambda: pytest.fail("nothing is queued"))
    device.TensorFlowDevice().wait()
