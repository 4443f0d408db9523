"""The cases of `gpu_clocks`."""

from __future__ import annotations

from typing import Any

from fixes.cases.gpu._cases import on_gpu
from trainperf.recording.machine.clocks import APPLICATION_CLOCKS

HELD: dict[str, Any] = {"sm_clock_mhz": 1100.0, "throttle_shares": {APPLICATION_CLOCKS: 0.9}}

silent = [
    on_gpu(),
    # they are at the highest already
    on_gpu({**HELD, "sm_clock_mhz": 1700.0}),
    # now and then, or not the reason
    on_gpu({**HELD, "throttle_shares": {APPLICATION_CLOCKS: 0.2}}),
    on_gpu({**HELD, "throttle_shares": {"power cap": 1.0}}),
    # the driver does not say
    on_gpu({**HELD, "throttle_shares": None}),
    on_gpu({**HELD, "sm_clock_mhz": None}),
    # the GPU waits for data
    on_gpu(HELD, resident=0.004, input=0.099),
]

fires = [on_gpu(HELD), on_gpu(HELD, gpu={"application_clock_mhz": 1095})]
