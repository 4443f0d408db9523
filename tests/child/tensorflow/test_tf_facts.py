"""Facts about TensorFlow loops that need no TensorFlow to be tested."""

from types import SimpleNamespace

from trainperf.child.tensorflow.devices import of_a_worker


def devices(*names):
    return [SimpleNamespace(name=name) for name in names]


def test_a_worker_of_a_cluster_counts_its_own_devices():
    worker = "/job:worker/replica:0/task:"
    assert of_a_worker(devices(f"{worker}0/device:CPU:0", f"{worker}1/device:CPU:0")) == 1
    assert of_a_worker(devices("/device:CPU:0", "/device:CPU:1")) == 2
    assert of_a_worker([]) == 0
