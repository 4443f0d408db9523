from __future__ import annotations

from typing import Any

from kit.evidence import machine
from trainperf.machine.doctor.examine import check_gpu_health
from trainperf.model import Gpu


def checked(**fields: Any) -> dict[str, str]:
    found = check_gpu_health(machine(gpus=(Gpu(0, "NVIDIA A10G", **fields),)))
    return {check.name: check.status for check in found}


# What must stay quiet comes first.


def test_a_process_that_only_holds_memory_is_no_warning() -> None:
    assert checked(other_processes=1, busy_before=0.0) == {"GPU 0 use": "ok"}


def test_errors_of_the_memory_are_a_problem() -> None:
    assert checked(ecc_errors=2) == {"GPU 0 memory": "problem"}


def test_a_process_that_computes_is_a_warning() -> None:
    assert checked(other_processes=2, busy_before=0.5) == {"GPU 0 use": "warning"}
    assert checked(other_processes=2) == {"GPU 0 use": "warning"}


def test_a_full_card_is_a_warning() -> None:
    assert checked(memory_before=20, memory_total=24) == {"GPU 0 free memory": "warning"}


def test_a_mode_that_keeps_processes_off_is_said() -> None:
    assert checked(compute_mode="shared") == {}
    assert checked(compute_mode="exclusive") == {"GPU 0 mode": "warning"}
    assert checked(compute_mode="prohibited") == {"GPU 0 mode": "problem"}
