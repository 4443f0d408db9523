from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.boxes import box, cores
from fixes.boxes import instance as rented
from trainperf.machine.doctor import checks
from trainperf.machine.doctor.checks import GIB, MIB, check_gpu_health, check_instance
from trainperf.model import Gpu, Instance, InstanceType, Machine
from trainperf.samplers.nvml import NO_DRIVER, NO_GPU, NOT_LOADED

A10G = Gpu(0, "NVIDIA A10G", 24 * GIB, "8.6", power_limit_w=300.0)


# What must stay quiet comes first.


def test_a_healthy_machine_gives_no_warning() -> None:
    healthy = box(gpus=(A10G,), driver="550.54", driver_cuda="12.4")
    found = (
        *checks.check_gpus(healthy, on_the_bus=1),
        *checks.check_visible_devices({}),
        checks.check_cores(healthy),
        checks.check_omp(healthy, {}),
        checks.check_memory(healthy),
        checks.check_shm(healthy, torch=True),
    )
    assert {check.status for check in found} == {"ok"}
    assert not any(check.advice for check in found)


def test_omp_threads_that_fit_the_cores_are_fine() -> None:
    for count, threads in ((8, "8"), (1, "1"), (8, "4,2")):
        assert checks.check_omp(cores(count), {"OMP_NUM_THREADS": threads}).status == "ok"
    # one thread on a third of a core: there is nothing below one
    part = box(cores=0.3, quota_cores=0.3, affinity_cores=1)
    assert checks.check_omp(part, {}).status == "ok"


# GPUs.


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


@pytest.mark.parametrize("value", ["", "-1", " "])
def test_hiding_every_gpu_is_a_warning(value: str) -> None:
    (check,) = checks.check_visible_devices({"CUDA_VISIBLE_DEVICES": value})
    assert check.status == "warning"


# Cores.


def test_a_quota_below_the_visible_cores_is_a_warning_with_the_number() -> None:
    machine = replace(cores(16), quota_cores=2.5, cores=2.5)
    check = checks.check_cores(machine)
    assert check.status == "warning"
    assert "16 visible, 2.5 usable: the cgroup quota is 2.5" in check.text
    assert "for 2," in check.advice


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
    check = checks.check_omp(cores(8), {"OMP_NUM_THREADS": value})
    assert check.status == "warning"
    assert words in check.text
    assert "8" in check.advice


# Memory.


@pytest.mark.parametrize(("torch", "status"), [(True, "problem"), (False, "warning")])
def test_the_shared_memory_that_docker_gives_is_too_small(torch: bool, status: str) -> None:
    machine = box(shm_total=64 * MIB, shm_free=64 * MIB)
    check = checks.check_shm(machine, torch)
    assert check.status == status
    assert "--shm-size" in check.advice


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (checks.check_memory(box(memory_available=GIB)), "warning"),
        (checks.check_shm(box(shm_total=GIB, shm_free=MIB), torch=True), "warning"),
        (checks.check_shm(box(shm_total=None), torch=True), "unknown"),
        (checks.check_cores(replace(cores(16), affinity_cores=4, cores=4)), "warning"),
        (checks.check_omp(replace(cores(16), quota_cores=0.5, cores=0.5), {}), "warning"),
        (checks.check_visible_devices({"CUDA_VISIBLE_DEVICES": "0,1"})[0], "ok"),
        (checks.check_gpus(box(gpu_reason="the driver is upset"), on_the_bus=0)[0], "problem"),
    ],
)
def test_what_is_short_is_a_warning_and_what_is_not_told_is_unknown(check, status: str) -> None:
    assert check.status == status


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


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("not an AWS instance", "ok"),
        ("not an AWS instance, as far as can be told: nobody answered", "unknown"),
        ("an EC2 instance of unknown type: it refused", "unknown"),
        ("not known within 1 s", "unknown"),
    ],
)
def test_off_aws_nothing_is_wrong(reason: str, status: str) -> None:
    machine = Machine(**{**vars(rented()), "instance": None, "instance_reason": reason})
    check = check_instance(machine)
    assert check.status == status
    assert check.text[1:] == reason[1:]


def test_gpus_that_are_paid_for_and_not_seen_are_a_warning() -> None:
    machine = rented("g5.12xlarge", gpus=(Gpu(0, "NVIDIA A10G"),))
    check = check_instance(machine)
    assert check.status == "warning"
    assert "1 of its 4 GPUs" in check.text
