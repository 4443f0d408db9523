from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fixes.boxes import box
from kit.stubs import build_nvml_stub, run_against_stub
from trainperf.machine.doctor.checks import Checkup
from trainperf.machine.doctor.examine import conclude
from trainperf.machine.doctor.frameworks import Build
from trainperf.machine.instance import NOT_AWS
from trainperf.model import Machine
from trainperf.run.interpreter import Interpreter

HEALTHY = box(instance_reason=NOT_AWS)
CPU_BUILD = Build("TensorFlow", "2.21.0")

CPU_TENSORFLOW = """
    from types import SimpleNamespace as N
    __version__ = "2.21.0"
    sysconfig = N(get_build_info=lambda: {"is_cuda_build": False})
    config = N(list_physical_devices=lambda kind: [], experimental=N())
"""

EXAMINE = """
    import dataclasses, json
    from trainperf.machine.doctor.examine import examine
    from trainperf.machine.doctor import frameworks

    del frameworks._FRAMEWORKS["PyTorch"]
    print(json.dumps([dataclasses.asdict(check) for check in examine().checks]))
"""


def checkup(
    machine: Machine = HEALTHY,
    builds: tuple[Build, ...] = (CPU_BUILD,),
    environment: Mapping[str, str] | None = None,
) -> Checkup:
    return conclude(
        machine,
        Interpreter("/env/bin/python", "VIRTUAL_ENV names it"),
        builds,
        on_the_bus=0,
        environment=environment or {},
    )


def named(checks: Checkup, name: str) -> list[str]:
    return [check.status for check in checks.checks if check.name == name]


def test_a_healthy_machine_without_a_gpu_has_nothing_wrong() -> None:
    seen = checkup()
    assert {check.status for check in seen.checks if check.name != "GPU"} == {"ok"}


def test_frameworks_that_are_none_or_fail_are_told() -> None:
    assert named(checkup(builds=()), "Frameworks") == ["warning"]
    broken = Build("PyTorch", "2.13", failure="OSError: libcudart")
    assert named(checkup(builds=(CPU_BUILD, broken)), "PyTorch") == ["problem"]


def test_shared_memory_is_judged_by_whether_pytorch_is_there() -> None:
    small = dataclasses.replace(HEALTHY, shm_total=64 * 1024**2, shm_free=64 * 1024**2)
    torch = Build("PyTorch", "2.13")
    assert named(checkup(small), "/dev/shm") == ["warning"]
    assert named(checkup(small, builds=(torch,)), "/dev/shm") == ["problem"]


def test_a_cpu_build_of_tensorflow_beside_a_gpu_is_found(
    tmp_path: Path, fake_module: Callable[[str, str], Path]
) -> None:
    fake_module("tensorflow", CPU_TENSORFLOW)
    stub = build_nvml_stub(tmp_path / "stub")
    checks: list[dict[str, Any]] = run_against_stub(stub, EXAMINE, GPUS=2)
    by_name = {check["name"]: check for check in checks}
    assert by_name["GPU 1"]["text"] == "NVIDIA Stub, 24.0 GiB, compute capability 8.6, 300 W"
    assert by_name["NVIDIA driver"]["text"] == "550.54.14, supports CUDA up to 12.4"
    assert by_name["TensorFlow and the GPU"]["status"] == "problem"
    assert "CPU only" in by_name["TensorFlow and the GPU"]["text"]


def test_a_gpu_that_cannot_be_opened_is_told(
    tmp_path: Path, fake_module: Callable[[str, str], Path]
) -> None:
    fake_module("tensorflow", CPU_TENSORFLOW)
    stub = build_nvml_stub(tmp_path / "stub")
    errors = "nvmlDeviceGetHandleByIndex_v2=15@1"
    checks = run_against_stub(stub, EXAMINE, GPUS=2, ERRORS=errors)
    assert "GPU 1 cannot be opened: GPU is lost." in [check["text"] for check in checks]
