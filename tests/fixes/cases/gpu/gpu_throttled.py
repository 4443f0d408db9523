"""The cases of `gpu_throttled`."""

from __future__ import annotations

from typing import Any

from fixes.cases.gpu._cases import on_gpu

HOT: dict[str, Any] = {
    "sm_clock_mhz": 1100.0,
    "throttle_shares": {"hardware thermal slowdown": 0.8, "power cap": 0.1},
}

silent = [
    on_gpu(),
    # at its power cap, or as somebody set it
    on_gpu({"sm_clock_mhz": 1100.0, "throttle_shares": {"power cap": 1.0}}),
    on_gpu({"sm_clock_mhz": 1100.0, "throttle_shares": {"application clocks": 1.0}}),
    # once, or without a loss
    on_gpu({**HOT, "throttle_shares": {"power brake": 0.05}}),
    on_gpu({**HOT, "sm_clock_mhz": 1690.0}),
    # the driver does not say
    on_gpu({**HOT, "throttle_shares": None}),
    on_gpu({**HOT, "sm_clock_mhz": None}),
    on_gpu(HOT, gpu={"max_sm_clock_mhz": None}),
    # waiting for data is what costs
    on_gpu(HOT, resident=0.004, input=0.099),
]

fires = [
    on_gpu(HOT),
    on_gpu({**HOT, "throttle_shares": {"power brake": 0.3, "hardware slowdown": 0.3}}),
    on_gpu(HOT, facts={"matmul": {"dtype": "tf32", "flops_s": 15e12, "seconds": 0.1}}),
    on_gpu(HOT, resident=None, input=None),
]
