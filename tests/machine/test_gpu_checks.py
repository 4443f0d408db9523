from __future__ import annotations

from typing import Any

import pytest

from fixes.boxes import box
from trainperf.machine.doctor.examine import check_gpu_health
from trainperf.model import Gpu


def checked(**fields: Any) -> dict[str, str]:
    found = check_gpu_health(box(gpus=(Gpu(0, "NVIDIA A10G", **fields),)))
    return {check.name: check.status for check in found}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        # a process that only holds memory is no warning
        ({"other_processes": 1, "busy_before": 0.0}, {"use": "ok"}),
        ({"compute_mode": "shared"}, {}),
        ({"ecc_errors": 2}, {"memory": "problem"}),
        ({"other_processes": 2, "busy_before": 0.5}, {"use": "warning"}),
        ({"other_processes": 2}, {"use": "warning"}),
        ({"memory_before": 20, "memory_total": 24}, {"free memory": "warning"}),
        ({"compute_mode": "exclusive"}, {"mode": "warning"}),
        ({"compute_mode": "prohibited"}, {"mode": "problem"}),
    ],
)
def test_what_keeps_a_gpu_from_its_work_is_said(
    fields: dict[str, Any], told: dict[str, str]
) -> None:
    assert checked(**fields) == {f"GPU 0 {name}": status for name, status in told.items()}
