"""Peak rates of GPUs, by the names that NVML gives."""

from __future__ import annotations

import pytest

from trainperf.fixes.precision._peaks import capability, peaks, sixteen_bit_ratio
from trainperf.model import CudaDevice


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA A10G", 70),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("Tesla T4", 65),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA A100-SXM4-40GB", 312),
    ],
)
def test_a_gpu_is_found_by_its_nvml_name(name: str, tflops: float) -> None:
    row = peaks(name)
    assert row is not None
    assert row["fp16_tensor_tflops"] == tflops


@pytest.mark.parametrize("name", ["NVIDIA L40", "NVIDIA T400", "GeForce RTX 3090", ""])
def test_a_gpu_that_is_not_listed_is_not_taken_for_another(name: str) -> None:
    assert peaks(name) is None


def test_the_gain_of_16_bits_is_over_tf32_where_the_gpu_has_it() -> None:
    assert sixteen_bit_ratio(CudaDevice(0, "NVIDIA A10G", compute_capability="8.6")) == 2.0


def test_the_gain_of_16_bits_is_over_float32_where_it_has_not() -> None:
    ratio = sixteen_bit_ratio(CudaDevice(0, "Tesla T4", compute_capability="7.5"))
    assert ratio == pytest.approx(65 / 8.1)


def test_a_gpu_that_is_not_listed_has_twice_the_rate_from_ampere_on() -> None:
    assert sixteen_bit_ratio(CudaDevice(0, "GeForce RTX 3090", compute_capability="8.6")) == 2.0


def test_an_older_gpu_that_is_not_listed_has_no_known_gain() -> None:
    assert sixteen_bit_ratio(CudaDevice(0, "GeForce GTX 1660", compute_capability="7.5")) is None
    assert sixteen_bit_ratio(CudaDevice(0, "something")) is None


def test_a_compute_capability_that_nobody_gave_is_none() -> None:
    assert capability(CudaDevice(0, "x")) is None
    assert capability(CudaDevice(0, "x", compute_capability="10.0")) == 10.0
