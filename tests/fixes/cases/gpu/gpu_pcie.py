"""The cases of `gpu_pcie`."""

from __future__ import annotations

from typing import Any

from fixes.cases.gpu._cases import on_gpu

NARROW: dict[str, Any] = {"pcie_width": 4, "pcie_rx_bytes_s": 5e9}

silent = [
    on_gpu(),
    # narrow, but hardly anything goes over it
    on_gpu({**NARROW, "pcie_rx_bytes_s": 0.01e9, "pcie_tx_bytes_s": 0.0}),
    # an idle card
    on_gpu({**NARROW, "pcie_generation": 1, "utilization_percent": 3.0}),
    # the driver does not say
    on_gpu({**NARROW, "pcie_width": None}),
    on_gpu({**NARROW, "pcie_rx_bytes_s": None, "pcie_tx_bytes_s": None}),
    on_gpu(NARROW, gpu={"pcie_width": None}),
    # hardly sampled
    on_gpu({**NARROW, "samples": 1}),
    on_gpu(NARROW, real=None),
]

fires = [
    on_gpu(NARROW),
    on_gpu({"pcie_generation": 1, "pcie_rx_bytes_s": 3e9}),
    on_gpu({"pcie_width": 8, "pcie_rx_bytes_s": 1e9, "pcie_tx_bytes_s": 12e9}),
]
