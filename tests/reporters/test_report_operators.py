"""The operators of a traced step: what is named, what is left out, what is said of a GPU."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reporters.rendering import of, text
from reporters.samples_observed import INPUT_BOUND
from reporters.samples_torch import TORCH_GPT, TORCH_OBSERVED
from trainperf.model.diagnosis import ReportedKernels, ReportedOperator
from trainperf.report.sections.parts import OPERATORS_HEADING
from trainperf.reporters.json import render

KERNELS = ReportedKernels(702.0, 0.05, 0.005, 0.03)


def alone(*operators: ReportedOperator) -> str:
    return of(replace(TORCH_OBSERVED, operators=operators, kernels=None), OPERATORS_HEADING)


def said(kernels: ReportedKernels) -> str:
    return of(replace(TORCH_OBSERVED, kernels=kernels), OPERATORS_HEADING)


# What must not be said comes first.


def test_a_step_that_was_not_traced_has_no_table() -> None:
    assert OPERATORS_HEADING not in text(INPUT_BOUND)
    assert OPERATORS_HEADING not in text(replace(TORCH_OBSERVED, operators=()))


def test_an_operator_of_no_account_has_no_row() -> None:
    assert "fill_" not in of(TORCH_OBSERVED, OPERATORS_HEADING)


def test_without_a_gpu_nothing_is_said_of_kernels() -> None:
    told = of(TORCH_GPT, OPERATORS_HEADING)
    assert "kernel" not in told
    assert "tensor core" not in told


def test_what_is_not_known_of_kernels_is_not_said() -> None:
    told = said(replace(KERNELS, gap_s=None, tensor_core_s=None, fusable_s=None))
    assert "702 kernels a pass." in told


def test_the_share_that_compiling_can_put_together_is_said() -> None:
    told = said(replace(KERNELS, busy_s=0.050, fusable_s=0.020))
    assert "40 % of their time is that of kernels which compiling can put together" in told


def test_no_more_than_eight_are_named() -> None:
    told = of(TORCH_GPT, OPERATORS_HEADING)
    assert told.count("aten::") == 8
    assert "softmax" not in told


def test_a_hostile_name_stays_in_its_line() -> None:
    told = alone(ReportedOperator("[red]\x1b[31m\n" + "kernel<4, " * 40, 3.0, 0.01, 1.0))
    assert "\x1b" not in told
    assert "[red] kernel<4, " in told
    assert told.count("kernel<4") < 5


# What must be said.


def test_every_operator_has_its_calls_its_time_and_its_share() -> None:
    told = of(TORCH_OBSERVED, OPERATORS_HEADING)
    assert "ConvolutionBackward0 53 24.2 ms 48 %" in told
    assert told.index("ConvolutionBackward0") < told.index("aten::cudnn_convolution")
    assert "aten::mm 35 32.7 ms" in of(TORCH_GPT, OPERATORS_HEADING)


def test_an_operator_of_some_passes_only_is_called_less_than_once() -> None:
    assert "aten::sort <1 10.0 ms 100 %" in alone(ReportedOperator("aten::sort", 0.33, 0.01, 1.0))


def test_the_gaps_and_the_tensor_cores_of_a_gpu_are_said_with_their_shares() -> None:
    assert (
        "702 kernels a pass; none runs for 5.00 ms of it (9.1 %), traced; "
        "tensor cores compute in at least 60 % of their time." in said(KERNELS)
    )


def test_kernels_that_are_not_named_for_tensor_cores_are_not_said_to_leave_them_idle() -> None:
    assert "none is named as one that uses tensor cores" in said(replace(KERNELS, tensor_core_s=0))


def test_that_tracing_slows_is_said() -> None:
    for diagnosis in (TORCH_OBSERVED, TORCH_GPT):
        assert "tracer, which slows them, so that only shares count" in of(
            diagnosis, OPERATORS_HEADING
        )


def test_json_has_the_operators_and_the_kernels() -> None:
    report = json.loads(render(TORCH_OBSERVED))
    assert report["operators"][0] == {
        "name": "ConvolutionBackward0",
        "calls_per_pass": 53.0,
        "seconds_per_pass": 0.0242,
        "share": pytest.approx(0.481, abs=1e-3),
    }
    assert report["kernels"]["launches_per_pass"] == 702.0
    assert report["kernels"]["tensor_core_s"] == 0.0288
    assert json.loads(render(TORCH_GPT))["kernels"] is None
    assert json.loads(render(INPUT_BOUND))["operators"] == []
