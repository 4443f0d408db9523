from __future__ import annotations

from dataclasses import replace

import pytest

from kit.evidence import machine as box
from trainperf.machine.doctor.compatibility import check_fit
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
CPU_BUILD = Build("TensorFlow", "2.21.0")
TORCH = Build(
    "PyTorch",
    "2.13.0+cu126",
    built_with_gpu=True,
    cuda="12.6",
    cudnn="9.8.0",
    capabilities=("sm_75", "sm_80", "sm_86", "sm_90", "compute_90"),
    gpus=("NVIDIA A10G",),
)


def with_gpu(capability: str = "8.6", cuda: str | None = "12.6", count: int = 1) -> Machine:
    gpus = tuple(Gpu(i, "a GPU", compute_capability=capability) for i in range(count))
    return box(gpus=gpus, driver="560.1", driver_cuda=cuda)


# What must stay quiet comes first.


def test_what_is_not_known_is_not_held_against_the_build() -> None:
    build = replace(TENSORFLOW, cuda=None, capabilities=())
    assert [check.status for check in check_fit(build, with_gpu(cuda=None))] == ["ok"]


# What must be found.


def test_a_cpu_build_beside_a_gpu_is_a_problem() -> None:
    (check,) = check_fit(CPU_BUILD, with_gpu())
    assert check.status == "problem"
    assert "CPU only" in check.text
    assert "tensorflow[and-cuda]" in check.advice


def test_a_build_for_a_newer_major_cuda_than_the_driver_is_a_problem() -> None:
    (check, *_) = check_fit(TENSORFLOW, with_gpu(cuda="11.8"))
    assert check.status == "problem"
    assert "CUDA 12.5.1" in check.text
    assert "11.8 at most" in check.text


def test_a_build_for_a_newer_minor_cuda_than_the_driver_is_a_warning() -> None:
    (check,) = check_fit(TENSORFLOW, with_gpu(cuda="12.2"))
    assert check.status == "warning"


def test_code_that_an_old_driver_cannot_compile_is_a_problem() -> None:
    (check, *_) = check_fit(TENSORFLOW, with_gpu("9.0", cuda="12.2"))
    assert check.status == "problem"
    assert "too old to compile" in check.text


@pytest.mark.parametrize("capability", ["9.0", "10.0", "12.0"])
def test_code_that_is_compiled_at_the_first_start_is_a_warning(capability: str) -> None:
    (check,) = check_fit(TENSORFLOW, with_gpu(capability))
    assert check.status == "warning"
    assert "first start" in check.text


def test_a_gpu_older_than_the_build_is_a_problem() -> None:
    (check,) = check_fit(TENSORFLOW, with_gpu("5.2"))
    assert check.status == "problem"
    assert "no code for a GPU" in check.text


def test_a_newer_gpu_than_a_build_without_intermediate_code_is_a_problem() -> None:
    build = replace(TENSORFLOW, name="PyTorch", capabilities=("sm_80", "sm_90a"))
    assert check_fit(build, with_gpu("9.0"))[0].status == "ok"
    assert check_fit(build, with_gpu("10.0"))[0].status == "problem"


@pytest.mark.parametrize(
    ("messages", "advice"),
    [
        ("Cannot dlopen some GPU libraries. Please", "tensorflow[and-cuda]"),
        ("Could not find cuda drivers on your machine", "libcuda.so.1"),
        ("failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: ", "SYSTEM_DRIVER_MISMATCH"),
        ("", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_a_gpu_build_that_sees_no_gpu_is_a_problem_with_a_reason(
    messages: str, advice: str
) -> None:
    (check,) = check_fit(replace(TENSORFLOW, gpus=(), messages=messages), with_gpu())
    assert (check.status, check.text) == ("problem", "TensorFlow sees none of the 1 GPU")
    assert advice in check.advice


def test_a_build_that_sees_some_of_the_gpus_is_a_warning() -> None:
    (check,) = check_fit(TENSORFLOW, with_gpu(count=4))
    assert (check.status, check.text) == ("warning", "TensorFlow sees 1 of the 4 GPUs")


# PyTorch: the same questions, its own words.


def test_a_cpu_build_of_pytorch_beside_a_gpu_is_a_problem() -> None:
    (check,) = check_fit(Build("PyTorch", "2.13.0+cpu"), with_gpu())
    assert (check.name, check.status) == ("PyTorch and the GPU", "problem")
    assert "PyTorch build for CUDA" in check.advice


def test_a_pytorch_for_a_newer_cuda_than_the_driver_is_told_by_how_much() -> None:
    (problem, *_) = check_fit(replace(TORCH, cuda="13.0"), with_gpu())
    assert problem.status == "problem"
    assert "PyTorch built for CUDA 12" in problem.advice
    (warning,) = check_fit(TORCH, with_gpu(cuda="12.2"))
    assert warning.status == "warning"


@pytest.mark.parametrize(
    ("messages", "advice"),
    [
        (
            (
                "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old"
                " (found version 11040)."
            ),
            "update the NVIDIA driver",
        ),
        ("Found no NVIDIA driver on your system. Please check", "--gpus all"),
        (
            (
                "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount()."
                " Did you run some cuda functions before calling NumCudaDevices() that might have"
                " already set an error? Error 802: system not yet initialized (Triggered internally"
            ),
            "nvidia-fabricmanager",
        ),
        (
            "Error 804: forward compatibility was attempted on non supported HW (Triggered",
            "LD_LIBRARY_PATH",
        ),
        ("CUDA initialization: CUDA unknown error - this may be due to an incorrectly", "nvidia_"),
        ("Error 999: something else (Triggered internally", "(error 999, something else)"),
        ("", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_a_pytorch_that_sees_no_gpu_is_a_problem_with_a_reason(messages: str, advice: str) -> None:
    build = replace(TORCH, gpus=(), messages=messages)
    (check,) = check_fit(build, with_gpu())
    assert (check.status, check.text) == ("problem", "PyTorch sees none of the 1 GPU")
    assert advice in check.advice
    assert "tensorflow" not in check.advice


def test_a_pytorch_for_amd_beside_an_nvidia_gpu_is_told_apart() -> None:
    build = replace(TORCH, cuda=None, cudnn=None, capabilities=(), gpus=())
    assert "AMD" in check_fit(build, with_gpu())[0].advice
