"""The GPUs through NVML, NVIDIA's management library, from outside the user's process."""

from __future__ import annotations

import time
from typing import Any

from trainperf.recording.machine.machine import Gpu
from trainperf.recording.run import GpuSample
from trainperf.samplers.nvml_device import GpuDevice

NO_BINDING = "the Python package nvidia-ml-py cannot be imported"
NO_DRIVER = "no NVIDIA driver found (libnvidia-ml.so.1 is missing)"
NOT_LOADED = (
    "the NVIDIA driver is installed but not loaded, or this container was started without"
    " access to the GPUs"
)
NOT_PERMITTED = (
    "this user may not ask the NVIDIA driver: in a container, start it with --gpus all and the"
    " capability `utility`; else ask for access to /dev/nvidiactl"
)
NO_GPU = "the NVIDIA driver is there, but it sees no GPU"

_REASONS = {
    4: NOT_PERMITTED,
    9: NOT_LOADED,
    12: NO_DRIVER,
    13: "the NVIDIA driver is too old for its management library to be used",
    18: "the NVIDIA driver was updated while it was running"
    " (library and kernel module differ): reboot, or reload the module",
    28: NO_GPU,
}
"""By return codes of nvml.h. Compared as numbers: bindings differ in the classes they have."""


class NvmlSampler:
    """The GPUs of this machine, and what they do at the moment.

    `gpus` describes them, `reason` says why there are none, `driver` and
    `driver_cuda` are versions ("550.54.14", "12.4") or None. `lost` says of the GPUs
    that do not answer, or stopped to, since when and why. Nothing here raises.
    """

    def __init__(self) -> None:
        """Start NVML and describe the GPUs; takes up to seconds on a cold driver."""
        self.gpus: tuple[Gpu, ...] = ()
        self.reason = ""
        self.driver: str | None = None
        self.driver_cuda: str | None = None
        self.lost: dict[int, str] = {}
        self._devices: list[GpuDevice] = []
        self._count = 0
        self._started = time.monotonic()
        self._nvml, self.reason = _open()
        if self._nvml is None:
            return
        try:
            self.driver = _try(self._nvml, "nvmlSystemGetDriverVersion")
            names = ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion")
            version = next(filter(None, (_try(self._nvml, name) for name in names)), None)
            if version:  # 1000 for the major version, 10 for the minor one
                self.driver_cuda = f"{version // 1000}.{version % 1000 // 10}"
            self._find()
        except Exception as error:  # a broken driver must not end the diagnosis
            self.reason = f"the NVIDIA driver gave an answer that makes no sense: {error}"
        self.gpus = tuple(device.gpu for device in self._devices)

    def __enter__(self) -> NvmlSampler:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what was allocated and shut NVML down; a second call does nothing."""
        nvml, self._nvml = self._nvml, None
        if nvml is None:
            return
        for device in self._devices:
            device.close()
        _try(nvml, "nvmlShutdown")

    def sample(self) -> tuple[GpuSample, ...]:
        """Return one sample of every GPU that still answers."""
        if self._nvml is None:
            return ()
        self._count += 1
        samples = []
        for device in self._devices:
            if device.gpu.index in self.lost:
                continue
            try:
                samples.append(device.sample())
            except Exception as error:
                seconds = time.monotonic() - self._started
                self.lost[device.gpu.index] = (
                    f"no more samples after {self._count - 1} ({seconds:.1f} s): {error}"
                )
                device.close()
        return tuple(samples)

    def _find(self) -> None:
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except Exception as error:
            self.reason = f"the NVIDIA driver does not say how many GPUs there are: {error}"
            return
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                self._devices.append(GpuDevice(self._nvml, index, handle))
            except Exception as error:
                self.lost[index] = f"cannot be opened: {error}"
        if not self._devices:
            because = "; ".join(f"GPU {index} {why}" for index, why in self.lost.items())
            self.reason = because or NO_GPU


def _open() -> tuple[Any, str]:
    try:
        import pynvml
    except Exception as error:
        return None, f"{NO_BINDING}: {error}"
    try:
        pynvml.nvmlInit()
    except Exception as error:
        otherwise = f"the NVIDIA driver's management library does not start: {error}"
        return None, _REASONS.get(getattr(error, "value", -1), otherwise)
    return pynvml, ""


def _try(nvml: Any, name: str) -> Any:
    try:
        return getattr(nvml, name)()
    except Exception:
        return None
