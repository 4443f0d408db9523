"""Traces become operators, kernels and gaps: by events that look like Kineto's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kit.kineto import Older, Seen
from trainperf.child.torch.probes.operator_times import (
    OPERATORS,
    PASS,
    OperatorTimes,
    is_fusable,
)


def a_pass(at: int, long: int = 1000) -> Seen:
    return Seen(PASS, at, long, "user_annotation")


def named(event: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Calls and microseconds of the operators, by name."""
    return {
        one["name"]: (one["calls"], round(one["seconds"] * 1e6, 6)) for one in event["operators"]
    }


GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"


# ----------------------------------------------------------------- on a CPU


def test_an_operator_has_its_own_time_without_that_of_those_it_calls():
    events = [
        a_pass(0),
        Seen("aten::linear", 100, 300),
        Seen("aten::t", 110, 20),
        Seen("aten::addmm", 150, 240),
        Seen("aten::addmm", 500, 100),
    ]
    event = OperatorTimes(events, "cpu").event()
    assert named(event) == {
        "aten::addmm": (2, 340),
        "aten::linear": (1, 40),
        "aten::t": (1, 20),
    }
    assert event["kernels"] == 3
    assert event["seconds"] == pytest.approx(0.001)
    assert event["gap_s"] is None


def test_what_compiling_may_save_on_a_cpu_is_all_but_products_and_other_libraries():
    events = [
        a_pass(0),
        *(Seen("aten::addmm", 10, 40), Seen("aten::mul", 100, 30), Seen("mine::scan", 200, 500)),
        *(Seen("MulBackward0", 710, 20), Seen("torch::autograd::AccumulateGrad", 800, 5)),
        *(Seen(f"aten::op{number}", 900 + number, 1) for number in range(OPERATORS)),
    ]
    assert OperatorTimes(events, "cpu").event()["fusable_s"] == pytest.approx(
        (50 + OPERATORS) * 1e-6
    )


# ----------------------------------------------------------------- on a GPU


def gpu(kind: type[Seen] = Seen) -> list[Seen]:
    """Two passes; in each two operators start three kernels and a copy, with gaps of 30 µs.

    The copy's call returns when the device has been idle for a while.
    """
    made: list[Seen] = []
    for first in (0, 2000):
        mm, add, call, late = (first + number for number in range(1, 5))
        made += [
            kind(PASS, first, 1000, "user_annotation", number=first + 5),
            kind("aten::mm", first + 10, 20, number=mm),
            kind("cudaLaunchKernel", first + 12, 5, "cuda_runtime", call, by=mm),
            kind("aten::add_", first + 40, 230, number=add),
            kind("cudaMemcpyAsync", first + 42, 200, "cuda_runtime", late, by=add),
            kind("region", first, 900, "gpu_user_annotation"),
            kind(GEMM, first + 100, 100, "kernel", call, by=mm),
            kind("splitKreduce_kernel", first + 210, 20, "kernel", call, by=mm),
            kind("Memcpy HtoD (Pinned -> Device)", first + 250, 30, "gpu_memcpy", late, by=add),
            kind("elementwise_kernel", first + 280, 50, "kernel", by=add),
        ]
    return made


@pytest.mark.parametrize("kind", [Seen, Older])
def test_an_operator_on_a_gpu_has_the_time_of_what_it_started(kind):
    event = OperatorTimes(gpu(kind), "cuda").event()
    copy = "aten::add_: Memcpy HtoD (Pinned -> Device)"
    assert named(event) == {"aten::mm": (1, 120), "aten::add_": (1, 50), copy: (1, 30)}
    assert event["kernels"] == 3


def test_the_gaps_are_where_nothing_runs_between_first_and_last_kernel_of_a_pass():
    event = OperatorTimes(gpu(), "cuda").event()
    assert event["gap_s"] == pytest.approx((10 + 20) * 1e-6)  # not from one pass to the next
    assert event["unqueued_s"] == pytest.approx(20e-6)


def test_work_is_of_the_pass_that_started_it_also_where_the_gpu_comes_to_it_later():
    late = [
        replace(seen, at=seen.at + 1500) if seen.device_type().endswith("CUDA") else seen
        for seen in gpu()
    ]
    assert OperatorTimes(late, "cuda", leave_out=1).event()["device_s"] == pytest.approx([150e-6])


@pytest.mark.parametrize(
    "name",
    [
        *("aten::mm", "aten::addmm", "aten::bmm", "aten::cudnn_convolution", "aten::_scaled_mm"),
        *("aten::_flash_attention_forward", "aten::_cudnn_rnn", "aten::embedding_dense_backward"),
        *("aten::index_select", "aten::sort", "flash_attn::_flash_attn_forward", "MmBackward0"),
        *(
            "c10d::allreduce_",
            "record_param_comms",
            "CompiledFunctionBackward",
            "triton_poi_fused_add_gelu_0",
        ),
    ],
)
def test_these_operators_are_left_to_their_libraries(name):
    assert not is_fusable(name)
