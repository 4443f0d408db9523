"""The devices that a TensorFlow loop uses."""

from __future__ import annotations


class TensorFlowDevice:
    """The GPUs of this process; the CPU has nothing queued."""

    def wait(self) -> None:
        """Wait until the GPUs have done what was queued; nothing to do on the CPU."""
        import tensorflow as tf

        if tf.config.list_logical_devices("GPU"):
            tf.test.experimental.sync_devices()
