"""Facts about TensorFlow loops that need no TensorFlow to be tested."""

from types import SimpleNamespace

from trainperf.child.tensorflow.facts import _own_devices


def devices(*names):
    return [SimpleNamespace(name=name) for name in names]


def test_a_worker_of_a_cluster_counts_its_own_devices():
    worker = "/job:worker/replica:0/task:"
    assert _own_devices(devices(f"{worker}0/device:CPU:0", f"{worker}1/device:CPU:0")) == 1
    assert _own_devices(devices("/device:CPU:0", "/device:CPU:1")) == 2
    assert _own_devices([]) == 0
