from __future__ import annotations

from dataclasses import replace

import pytest

from fixes.boxes import box
from trainperf.machine.doctor.examine import check_fit
from trainperf.machine.doctor.frameworks import Build
from trainperf.model import Gpu, Machine

TENSORFLOW = Build(
    "TensorFlow",
    "2.21.0",
    built_with_gpu=True,
    cuda="12.5.1",
    cudnn="9",
    capabilities=("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"),
    gpus=("NVIDIA A10G",),
)
TORCH = Build(
    "PyTorch",
    "2.13.0+cu126",
    built_with_gpu=True,
    cuda="12.6",
    cudnn="9.8.0",
    capabilities=("sm_75", "sm_80", "sm_86", "sm_90", "compute_90"),
    gpus=("NVIDIA A10G",),
)


def with_gpu(capability: str | None = "8.6", cuda: str | None = "12.6", count: int = 1) -> Machine:
    gpus = tuple(Gpu(i, "a GPU", compute_capability=capability) for i in range(count))
    return box(gpus=gpus, driver="560.1", driver_cuda=cuda)


# What must stay quiet comes first.


def test_what_is_not_known_is_not_held_against_the_build() -> None:
    build = replace(TENSORFLOW, cuda=None, capabilities=())
    assert [check.status for check in check_fit(build, with_gpu(cuda=None))] == ["ok"]


# What must be found.


CPU_BUILD = Build("TensorFlow", "2.21.0")
AMD = replace(TORCH, cuda=None, cudnn=None, capabilities=(), gpus=())


@pytest.mark.parametrize(
    ("build", "machine", "status", "words"),
    [
        (CPU_BUILD, with_gpu(), "problem", "tensorflow[and-cuda]"),
        (Build("PyTorch", "2.13.0+cpu"), with_gpu(), "problem", "PyTorch build for CUDA"),
        (TENSORFLOW, with_gpu(cuda="11.8"), "problem", "11.8 at most"),
        (replace(TORCH, cuda="13.0"), with_gpu(), "problem", "PyTorch built for CUDA 12"),
        (TENSORFLOW, with_gpu("5.2"), "problem", "no code for a GPU"),
        (TENSORFLOW, with_gpu(count=4), "warning", "sees 1 of the 4 GPUs"),
        (AMD, with_gpu(), "problem", "AMD"),
    ],
)
def test_a_build_that_does_not_fit_is_told_with_what_helps(
    build: Build, machine: Machine, status: str, words: str
) -> None:
    (check, *_) = check_fit(build, machine)
    assert check.status == status
    assert words in f"{check.text} {check.advice}"


@pytest.mark.parametrize(
    ("held", "capability", "status"),
    [
        (("sm_80",), "8.6", "ok"),
        (("sm_86",), "8.0", "problem"),
        (("sm_80", "compute_80"), "9.0", "ok"),
        (("compute_90",), "8.6", "problem"),
        (("sm_90a",), "9.0", "ok"),
        (("sm_90a",), "9.2", "problem"),
        (("sm_80",), None, "ok"),
        (("gfx90a",), "8.0", "problem"),
    ],
)
def test_code_runs_on_its_generation_or_is_compiled(
    held: tuple[str, ...], capability: str | None, status: str
) -> None:
    build = replace(TORCH, capabilities=held)
    assert check_fit(build, with_gpu(capability))[0].status == status


@pytest.mark.parametrize(
    ("messages", "advice"),
    [
        ("Cannot dlopen some GPU libraries. Please", "tensorflow[and-cuda]"),
        ("Could not find cuda drivers on your machine", "libcuda.so.1"),
        ("cuInit: CUDA_ERROR_NOT_INITIALIZED: initialization error", "(CUDA_ERROR_NOT_INITIAL"),
        ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver /", "LD_LIBRAR"),
        ("", "CUDA_VISIBLE_DEVICES"),
        ("CUDA initialization: The NVIDIA driver on your system is too old", "update the NVIDIA"),
        ("Found no NVIDIA driver on your system. Please check", "--gpus all"),
        ("Error 802: system not yet initialized (Triggered internally", "nvidia-fabricmanager"),
        ("Error 804: forward compatibility was attempted on non supported HW", "LD_LIBRARY_PATH"),
        ("CUDA initialization: CUDA unknown error - this may be due to an incorrectly", "nvidia_"),
        ("Error 999: something else (Triggered internally", "(Error 999: something else)"),
    ],
)
def test_a_gpu_build_that_sees_no_gpu_is_a_problem_with_a_reason(
    messages: str, advice: str
) -> None:
    (check,) = check_fit(replace(TORCH, gpus=(), messages=messages), with_gpu())
    assert (check.status, check.text) == ("problem", "PyTorch sees none of the 1 GPU")
    assert advice in check.advice
