"""The GPUs through NVML, NVIDIA's management library, from outside the user's process."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any

from trainperf.recording.machine.machine import (
    APPLICATION_CLOCKS,
    POWER_CAP,
    ComputeMode,
    Gpu,
)
from trainperf.recording.run import GpuSample

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
            version = _try(self._nvml, "nvmlSystemGetCudaDriverVersion")
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


# One GPU: what it is, what it does now, what it does not answer.

# Return codes of nvml.h.
_PERMANENT = {2, 3, 4, 13, 25, 26}  # invalid, not supported, no permission, no function, version
_LOST = {15, 16}  # GPU is lost, reset required

_UNCORRECTED = 1  # NVML_MEMORY_ERROR_TYPE_UNCORRECTED
_SINCE_LOADED = 0  # NVML_VOLATILE_ECC

_MODES: dict[int, ComputeMode] = {0: "shared", 2: "prohibited", 3: "exclusive"}
"""nvmlComputeMode_t; 1 (one thread) is no longer supported."""

_METRICS = {2: "sm_active", 5: "tensor_active", 10: "dram_active"}
"""NVML_GPM_METRIC_* in nvml.h, utilisations in percent, with our names."""

# The bits of nvmlClocksEventReasons in nvml.h (nvmlClocksThrottleReasons before driver
# 535, same values). Bit 1, "GPU idle", is left out: an idle GPU lacks work, not clock.
_IDLE = 0x1
_WORDS = {
    0x2: APPLICATION_CLOCKS,
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}


class GpuLost(Exception):  # noqa: N818 - an event, not an error
    """The GPU has gone and will not come back while the program runs."""


class GpuDevice:
    """One GPU: `gpu` describes it, `sample` asks it.

    What the GPU or its driver refuses for good is not asked again and stays None.
    Raises `GpuLost` when the GPU is gone.
    """

    def __init__(self, nvml: Any, index: int, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._sm = (nvml.NVML_CLOCK_SM,)
        self._refused: set[str] = set()
        self._gpm = self._open_gpm()
        try:
            self.gpu = self._describe(index)
        except Exception:
            self.close()
            raise

    def sample(self) -> GpuSample:
        """Return what the GPU does now."""
        use = self._ask("nvmlDeviceGetUtilizationRates")
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        bits = self._ask(
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        )
        return GpuSample(
            index=self.gpu.index,
            utilization_percent=None if use is None else float(use.gpu),
            memory_used=None if memory is None else int(memory.used),
            power_w=_watts(self._ask("nvmlDeviceGetPowerUsage")),
            sm_clock_mhz=self._ask("nvmlDeviceGetClockInfo", arguments=self._sm),
            throttle=None if bits is None else throttle_words(bits),
            **self._read_gpm(),
        )

    def close(self) -> None:
        """Free the counters; a second call does nothing."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def _describe(self, index: int) -> Gpu:
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        capability = self._ask("nvmlDeviceGetCudaComputeCapability")
        processes = self._processes()
        use = self._ask("nvmlDeviceGetUtilizationRates") if processes else None
        mig = self._ask("nvmlDeviceGetMigMode")
        errors = self._ask("nvmlDeviceGetTotalEccErrors", arguments=(_UNCORRECTED, _SINCE_LOADED))
        return Gpu(
            index=index,
            name=self._ask("nvmlDeviceGetName") or "NVIDIA GPU",
            memory_total=None if memory is None else int(memory.total),
            compute_capability=None if capability is None else "{}.{}".format(*capability),
            power_limit_w=_watts(self._ask("nvmlDeviceGetEnforcedPowerLimit")),
            max_sm_clock_mhz=self._ask("nvmlDeviceGetMaxClockInfo", arguments=self._sm),
            ecc_errors=None if errors is None else int(errors),
            mig=None if mig is None else bool(mig[0]),  # the current mode, not the pending one
            other_processes=None if processes is None else len(processes),
            busy_before=float(use.gpu) / 100 if processes and use is not None else None,
            application_clock_mhz=self._ask("nvmlDeviceGetApplicationsClock", arguments=self._sm),
            uuid=self._ask("nvmlDeviceGetUUID"),
            compute_mode=_MODES.get(self._ask("nvmlDeviceGetComputeMode"), ""),
            memory_before=None if memory is None else int(memory.used),
        )

    def _processes(self) -> list[Any] | None:
        found: list[Any] | None = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return found

    def _ask(self, name: str, older: str = "", arguments: tuple[Any, ...] = ()) -> Any:
        """Return what a function says, or its `older` name of the same meaning; else None."""
        for function in filter(None, (name, older)):
            if function not in self._refused:
                try:
                    return getattr(self._nvml, function)(self._handle, *arguments)
                except Exception as error:
                    self._note(function, error)
        return None

    def _open_gpm(self) -> Gpm | None:
        try:
            if self._nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
                return Gpm(self._nvml, self._handle)
        except Exception as error:
            self._note("gpm", error)
        return None

    def _read_gpm(self) -> dict[str, float]:
        try:
            return {} if self._gpm is None else self._gpm.read()
        except Exception as error:
            self._note("gpm", error)
            if "gpm" in self._refused:
                self.close()
        return {}

    def _note(self, name: str, error: Exception) -> None:
        """Remember what is not worth asking again; raise if the GPU is gone."""
        code = getattr(error, "value", None)
        if code in _LOST:
            raise GpuLost(str(error)) from error
        if code in _PERMANENT or isinstance(error, AttributeError):
            self._refused.add(name)


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


# GPU performance monitoring: what the chip's own counters say (Hopper and later).
#
# The counters are read as two snapshots, and every value is a mean over the time between them. No
# root is needed.


class Gpm:
    """The counters of one GPU. Every method raises what NVML raises, except `close`."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        """Allocate two snapshots and take the first."""
        self._nvml = nvml
        self._handle = handle
        self._snapshots: list[Any] = []
        try:
            for _ in range(2):
                self._snapshots.append(nvml.nvmlGpmSampleAlloc())
            nvml.nvmlGpmSampleGet(handle, self._snapshots[0])
        except Exception:
            self.close()
            raise
        self._request = nvml.c_nvmlGpmMetricsGet_t()

    def read(self) -> dict[str, float]:
        """Return the means since the last call, or since the start, as shares."""
        before, after = self._snapshots
        self._nvml.nvmlGpmSampleGet(self._handle, after)
        request = self._request
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(_METRICS)
        request.sample1, request.sample2 = before, after
        for place, metric in enumerate(_METRICS):
            request.metrics[place].metricId = metric
        self._nvml.nvmlGpmMetricsGet(request)
        self._snapshots.reverse()
        metrics = [request.metrics[place] for place in range(len(_METRICS))]
        return {
            _METRICS[metric.metricId]: min(1.0, max(0.0, metric.value / 100))
            for metric in metrics  # two snapshots too close together give NaN for some
            if metric.nvmlReturn == 0 and math.isfinite(metric.value)
        }

    def close(self) -> None:
        """Free the snapshots."""
        while self._snapshots:
            with suppress(Exception):
                self._nvml.nvmlGpmSampleFree(self._snapshots.pop())


def throttle_words(bits: int) -> tuple[str, ...]:
    """Return the reasons in `bits`, lowest bit first; bits without a name by number."""
    found = (1 << place for place in range(bits.bit_length()) if bits >> place & 1)
    return tuple(_WORDS.get(bit, f"reason {bit:#x}") for bit in found if bit != _IDLE)
