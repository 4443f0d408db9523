"""Evidence of runs on a GPU whose health was watched, for the cases of its fixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import GPU, evidence, machine
from trainperf.model import Evidence, Gpu, PhaseUse

A10G = Gpu(
    0,
    "NVIDIA A10G",
    memory_total=24 * 1024**3,
    compute_capability="8.6",
    power_limit_w=300.0,
    max_sm_clock_mhz=1710,
    pcie_generation=4,
    pcie_width=16,
    persistence=True,
    ecc_errors=0,
    mig=False,
    other_processes=0,
)
BUSY: dict[str, Any] = {
    "index": 0,
    "samples": 20,
    "utilization_percent": 97.0,
    "sm_clock_mhz": 1695.0,
    "throttle": [],
    "throttle_shares": {},
    "pcie_generation": 4,
    "pcie_width": 16,
    "pcie_rx_bytes_s": 0.2e9,
    "pcie_tx_bytes_s": 0.1e9,
}
"""A GPU that is busy and well."""


def on_gpu(
    laid: dict[str, Any] | None = None,
    /,
    *,
    gpu: dict[str, Any] | None = None,
    driver_cuda: str | None = "12.4",
    **fields: Any,
) -> Evidence:
    """A healthy run on one A10G; `laid` is laid over its samples, `gpu` over the card.

    All else are the fields of `evidence()`.
    """
    fields.setdefault("device", GPU)
    cards = (replace(A10G, **(gpu or {})),)
    fields.setdefault("machine", machine(gpus=cards, driver_cuda=driver_cuda))
    seen = ({**BUSY, **(laid or {})},)
    fields.setdefault("use", tuple(PhaseUse(name, 20, gpu=seen) for name in ("real", "resident")))
    return evidence(**fields)
