"""GPU performance monitoring: what the chip's own counters say (Hopper and later).

The counters are read as two snapshots, and every value is a mean over the time
between them. No root is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

# NVML_GPM_METRIC_* in nvml.h: utilisations in percent, PCIe in MiB/s.
_SM, _TENSOR, _DRAM, _PCIE_TX, _PCIE_RX = 2, 5, 10, 20, 21
_METRICS = (_SM, _TENSOR, _DRAM, _PCIE_TX, _PCIE_RX)
_MIB = 1024 * 1024


@dataclass(frozen=True)
class GpmReading:
    """Means since the last reading: shares of 1, and bytes a second over PCIe."""

    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    pcie_rx_bytes_s: float | None = None
    pcie_tx_bytes_s: float | None = None


def supported(nvml: Any, handle: Any) -> bool:
    """Say whether the GPU has the counters; raises what NVML raises."""
    return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)


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

    def read(self) -> GpmReading:
        """Return the means since the last call, or since the start."""
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
        got = {
            request.metrics[place].metricId: _value(request.metrics[place])
            for place in range(len(_METRICS))
        }
        return GpmReading(
            sm_active=_share(got.get(_SM)),
            tensor_active=_share(got.get(_TENSOR)),
            dram_active=_share(got.get(_DRAM)),
            pcie_rx_bytes_s=_bytes(got.get(_PCIE_RX)),
            pcie_tx_bytes_s=_bytes(got.get(_PCIE_TX)),
        )

    def close(self) -> None:
        """Free the snapshots."""
        while self._snapshots:
            snapshot = self._snapshots.pop()
            try:
                self._nvml.nvmlGpmSampleFree(snapshot)
            except Exception:
                pass


def _value(metric: Any) -> float | None:
    # Two snapshots too close together give NaN for some metrics.
    if metric.nvmlReturn != 0 or not math.isfinite(metric.value):
        return None
    return float(metric.value)


def _share(percent: float | None) -> float | None:
    return None if percent is None else min(1.0, max(0.0, percent / 100))


def _bytes(mib_s: float | None) -> float | None:
    return None if mib_s is None else max(0.0, mib_s * _MIB)
