"""The clock of the GPUs that a TensorFlow loop uses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..timing.device.clock import HostClock

KIND = "GPU"
"""The type of the devices whose work is queued."""


class TensorFlowClock(HostClock):
    """The GPUs of this process; the CPU has nothing queued.

    TensorFlow has no events in Python: a mark is the host's own, and times are taken from two
    lengths in turn.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._asynchronous: bool | None = None

    @property
    def name(self) -> str:
        """Whose clock the times are from, and how."""
        return super().name + (", from two lengths in turn" if self.asynchronous else "")

    @property
    def asynchronous(self) -> bool:
        """Whether a GPU is in use; asked once TensorFlow has set its devices up."""
        if self._asynchronous is None:
            context: Any = sys.modules.get("tensorflow.python.eager.context")
            if context is None or not context.context()._initialized:
                return False
            self._asynchronous = bool(context.context().list_logical_devices(KIND))
        return self._asynchronous

    @property
    def marks(self) -> bool:
        """Not on a GPU."""
        return not self.asynchronous

    def wait(self) -> None:
        """Wait until they have done what was queued; nothing to do on the CPU.

        `tf.test.experimental.sync_devices` visits the devices of other workers as well, and
        fails there: a process of a `MultiWorkerMirroredStrategy` lists them all.
        """
        if not self.asynchronous:
            return
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import gen_sync_ops

        space = context.context().host_address_space()
        here = (f"{space}/device:", "/device:")  # alone, no job is named
        for device in context.context().list_logical_devices(KIND):
            if device.name.startswith(here):
                with ops.device(device.name):
                    gen_sync_ops.SyncDevice()
        context.async_wait()
