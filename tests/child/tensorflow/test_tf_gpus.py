"""Which GPUs a TensorFlow process sees and uses: `tf.config` made up, as there is none here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from trainperf.child.tensorflow import facts

OWN, OTHER = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"


@pytest.fixture
def config(monkeypatch):
    """Two GPUs of which the first holds tensors; logical ones of another worker as well."""
    held = {"GPU:0": 1 << 30, "GPU:1": 1280}
    logical = [f"{task}/device:GPU:{index}" for task in (OWN, OTHER) for index in range(2)]

    def details(gpu):
        return {"device_name": "NVIDIA A10G", "compute_capability": (8, 6)}

    made = SimpleNamespace(held=held, logical=logical)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["0", "1"])
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind=None: [SimpleNamespace(name=name) for name in made.logical],
    )
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    monkeypatch.setattr(
        tf.config.experimental, "get_memory_info", lambda name: {"peak": made.held[name]}
    )
    return made


def used():
    return [one["used"] for one in facts.tf_gpus()]


def test_a_gpu_that_held_next_to_nothing_is_not_used(config):
    assert used() == [True, False]
    assert facts.tf_gpus()[0] == {
        "number": 0,
        "name": "NVIDIA A10G",
        "uuid": None,
        "memory": None,
        "capability": "8.6",
        "used": True,
    }
