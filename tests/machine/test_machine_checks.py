from __future__ import annotations

from dataclasses import replace

import pytest

from kit.evidence import machine as box
from trainperf.machine.doctor import checks
from trainperf.machine.doctor.checks import GIB, MIB
from trainperf.model import Gpu, Instance, InstanceType
from trainperf.samplers.nvml import NO_BINDING, NO_DRIVER, NO_GPU, NOT_LOADED

A10G = Gpu(0, "NVIDIA A10G", 24 * GIB, "8.6", power_limit_w=300.0)


# What must stay quiet comes first.


def test_a_healthy_machine_gives_no_warning() -> None:
    healthy = box(gpus=(A10G,), driver="550.54", driver_cuda="12.4", shm_total=16 * GIB)
    healthy = replace(healthy, shm_free=16 * GIB, disk_free=100 * GIB)
    found = (
        *checks.check_gpus(healthy, on_the_bus=1),
        *checks.check_visible_devices({}),
        checks.check_cores(healthy),
        checks.check_omp(healthy, {}),
        checks.check_memory(healthy),
        checks.check_shm(healthy, torch=True),
        checks.check_disk(healthy),
    )
    assert {check.status for check in found} == {"ok"}
    assert not any(check.advice for check in found)


def test_omp_threads_that_fit_the_cores_are_fine() -> None:
    assert checks.check_omp(box(8), {"OMP_NUM_THREADS": "8"}).status == "ok"
    assert checks.check_omp(box(1), {"OMP_NUM_THREADS": "1"}).status == "ok"
    assert checks.check_omp(box(8), {"OMP_NUM_THREADS": "4,2"}).status == "ok"
    # one thread on a third of a core: there is nothing below one
    part = replace(box(2), cores=0.3, quota_cores=0.3, affinity_cores=1)
    assert checks.check_omp(part, {}).status == "ok"


def test_a_choice_of_gpus_is_fine() -> None:
    (check,) = checks.check_visible_devices({"CUDA_VISIBLE_DEVICES": "0,1"})
    assert check.status == "ok"


# GPUs.


def test_a_gpu_is_described_in_one_line() -> None:
    gpu, driver = checks.check_gpus(
        box(gpus=(A10G,), driver="550.54", driver_cuda="12.4"), on_the_bus=1
    )
    assert gpu.text == "NVIDIA A10G, 24.0 GiB, compute capability 8.6, 300 W"
    assert driver.text == "550.54, supports CUDA up to 12.4"


@pytest.mark.parametrize("reason", [NO_DRIVER, NOT_LOADED, NO_GPU])
def test_a_gpu_on_the_bus_that_cannot_be_used_is_a_problem(reason: str) -> None:
    (check,) = checks.check_gpus(box(gpu_reason=reason), on_the_bus=2)
    assert check.status == "problem"
    assert "2 NVIDIA GPU(s) on the PCI bus" in check.text
    assert "--gpus all" in check.advice


@pytest.mark.parametrize("reason", [NO_DRIVER, NOT_LOADED, NO_GPU])
def test_a_gpu_that_the_instance_should_have_is_missed(reason: str) -> None:
    kind = InstanceType("ml.g5.xlarge", 4, 16 * GIB, gpus=1, gpu="A10G")
    rented = box(gpu_reason=reason, instance=Instance("sagemaker", "ml.g5.xlarge", kind))
    (check,) = checks.check_gpus(rented, on_the_bus=0)
    assert check.status == "problem"
    assert check.text.startswith("ml.g5.xlarge has 1 × A10G, but: ")
    without = Instance("ec2", "c7i.xlarge", replace(kind, name="c7i.xlarge", gpus=0, gpu=""))
    (check,) = checks.check_gpus(box(gpu_reason=reason, instance=without), on_the_bus=0)
    assert check.status == "unknown"


def test_a_driver_that_fails_is_a_problem() -> None:
    (check,) = checks.check_gpus(box(gpu_reason="the driver is upset"), on_the_bus=0)
    assert (check.status, check.text) == ("problem", "The driver is upset.")


def test_without_the_binding_the_advice_is_to_install_it() -> None:
    (check,) = checks.check_gpus(box(gpu_reason=f"{NO_BINDING}: no module"), on_the_bus=1)
    assert check.advice == "pip install nvidia-ml-py"


def test_a_gpu_that_cannot_be_opened_beside_one_that_can_is_a_problem() -> None:
    machine = box(gpus=(A10G,), gpu_reason="GPU 1 cannot be opened: GPU is lost")
    statuses = [check.status for check in checks.check_gpus(machine, on_the_bus=2)]
    assert statuses == ["ok", "problem", "ok"]


@pytest.mark.parametrize("value", ["", "-1", " "])
def test_hiding_every_gpu_is_a_warning(value: str) -> None:
    (check,) = checks.check_visible_devices({"CUDA_VISIBLE_DEVICES": value})
    assert check.status == "warning"


# Cores.


def test_a_quota_below_the_visible_cores_is_a_warning_with_the_number() -> None:
    machine = replace(box(16), quota_cores=2.5, cores=2.5)
    check = checks.check_cores(machine)
    assert check.status == "warning"
    assert "16 visible, 2.5 usable: the cgroup quota is 2.5" in check.text
    assert "for 2," in check.advice


def test_an_affinity_mask_below_the_visible_cores_is_a_warning() -> None:
    machine = replace(box(16), affinity_cores=4, cores=4)
    assert "the affinity mask allows 4" in checks.check_cores(machine).text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("64", "more than the 8 usable cores"),
        ("1", "is 1, with 8 usable cores"),
        ("many", "not a number"),
        ("0", "not a number"),
        ("", "not a number"),
    ],
)
def test_omp_threads_that_do_not_fit_are_a_warning(value: str, words: str) -> None:
    check = checks.check_omp(box(8), {"OMP_NUM_THREADS": value})
    assert check.status == "warning"
    assert words in check.text
    assert "8" in check.advice


def test_no_omp_threads_under_a_quota_are_a_warning() -> None:
    machine = replace(box(16), quota_cores=0.5, cores=0.5)
    check = checks.check_omp(machine, {})
    assert check.status == "warning"
    assert check.advice.endswith("export OMP_NUM_THREADS=1")


# Memory and disk.


def test_little_memory_left_is_a_warning() -> None:
    machine = replace(box(), memory_available=GIB)
    assert checks.check_memory(machine).status == "warning"


def test_a_memory_limit_is_named_beside_the_memory_of_the_machine() -> None:
    machine = replace(box(), memory_limit=4 * GIB, memory_available=4 * GIB)
    assert "cgroup limit; the machine has 64.0 GiB" in checks.check_memory(machine).text


@pytest.mark.parametrize(("torch", "status"), [(True, "problem"), (False, "warning")])
def test_the_shared_memory_that_docker_gives_is_too_small(torch: bool, status: str) -> None:
    machine = box(shm_total=64 * MIB, shm_free=64 * MIB)
    check = checks.check_shm(machine, torch)
    assert check.status == status
    assert "--shm-size" in check.advice


def test_shared_memory_that_is_full_is_a_warning() -> None:
    assert checks.check_shm(box(shm_total=GIB, shm_free=MIB), torch=True).status == "warning"


def test_shared_memory_that_is_not_there_is_unknown() -> None:
    assert checks.check_shm(box(), torch=True).status == "unknown"


def test_little_disk_is_a_warning_and_an_unreadable_one_is_unknown() -> None:
    assert checks.check_disk(box(disk_free=GIB)).status == "warning"
    assert checks.check_disk(box()).status == "unknown"
