"""The devices that a TensorFlow loop uses."""

from __future__ import annotations

KIND = "GPU"
"""The devices that run later than the host."""


class TensorFlowDevice:
    """The GPUs of this process; the CPU has nothing queued."""

    def wait(self) -> None:
        """Wait until they have done what was queued; nothing to do on the CPU.

        `tf.test.experimental.sync_devices` visits the devices of other workers as well, and
        fails there: a process of a `MultiWorkerMirroredStrategy` lists them all.
        """
        import tensorflow as tf

        devices = tf.config.list_logical_devices(KIND)
        if not devices:
            return
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import gen_sync_ops

        space = context.context().host_address_space()
        here = (f"{space}/device:", "/device:")  # alone, no job is named
        for device in devices:
            if device.name.startswith(here):
                with ops.device(device.name):
                    gen_sync_ops.SyncDevice()
        context.async_wait()
