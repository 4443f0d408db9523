"""The worth of the parts of a PyTorch step, and the name of its model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.evidence import GPU, probe
from kit.torch_evidence import split, torch_evidence
from rewriting import script_of
from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes.torch_step._source import inherits_forward, model_target
from trainperf.fixes.torch_step._step import (
    PROBED,
    UNTRIED,
    bound_by_probe,
    compute_seconds,
    part_seconds,
    planned_steps,
    saved_by_probe,
    step_seconds,
    taken_probe,
    to_try,
)
from trainperf.model import Measure, Missing


def test_a_part_that_was_not_seen_is_not_zero() -> None:
    with pytest.raises(NotMeasured):
        part_seconds(torch_evidence(split=split(forward=0.05)), "optimizer")


def test_parts_of_slowed_steps_shrink_until_they_fit_into_a_real_one() -> None:
    case = torch_evidence(real=0.100, split=split(forward=0.100, optimizer=0.100))

    assert part_seconds(case, "optimizer") == pytest.approx(0.050)


def test_parts_that_fit_stay_as_they_are() -> None:
    case = torch_evidence(real=0.100, split=split(forward=0.050, optimizer=0.010))

    assert part_seconds(case, "optimizer") == pytest.approx(0.010)


def test_waiting_for_a_gpu_is_computing() -> None:
    parts = split(forward=0.01, backward=0.02, sync=0.05)

    assert compute_seconds(torch_evidence(split=parts)) == pytest.approx(0.03)
    assert compute_seconds(torch_evidence(split=parts, device=GPU)) == pytest.approx(0.08)


def test_a_loop_without_a_loader_has_its_real_step() -> None:
    case = torch_evidence(real=0.100, resident=None, input=None)

    assert step_seconds(case) == 0.100


def test_a_probe_of_a_part_saves_no_more_than_that_part() -> None:
    assert saved_by_probe(torch_evidence(real=0.100), probe(2.0)) == pytest.approx(0.005)


def test_a_probe_saves_no_more_than_its_share_of_the_step() -> None:
    case = torch_evidence(real=0.008, resident=0.008, input=None)

    assert saved_by_probe(case, probe(2.0)) == pytest.approx(0.004)
    assert bound_by_probe(case, probe(2.0)) == pytest.approx(2.0)


def test_a_run_of_unknown_length_plans_no_number_of_steps() -> None:
    assert planned_steps(torch_evidence()) is None


@pytest.mark.parametrize(
    "text",
    [
        "train(▸Net()◂)\n",
        "model = other = ▸Net()◂\n",
        "model, loss = ▸Net()◂, Loss()\n",
        "models[0] = ▸Net()◂\n",
        "model = wrap(▸Net()◂)\n",
        "model = ▸Net()◂.weights()\n",
        "model = ▸Net()◂ if new else load()\n",
        "build().model = ▸Net()◂\n",
        "model += ▸Net()◂\n",
    ],
)
def test_a_model_without_a_plain_name_of_its_own_is_left_alone(text: str) -> None:
    script, (site,) = script_of(text)
    with pytest.raises(CannotRewrite):
        model_target(script, site)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model = ▸Net()◂\n", "model"),
        ("model: nn.Module = ▸nn.Sequential(\n    a,\n    b,\n)◂\n", "model"),
        ("self.net = ▸Net()◂.to(device).train()\n", "self.net"),
        ("def build():\n    net = (\n        ▸Net()◂\n        .cuda()\n    )\n", "net"),
    ],
)
def test_a_model_is_called_what_it_is_assigned_to(text: str, name: str) -> None:
    script, (site,) = script_of(text)

    assert model_target(script, site) == name


def test_a_probe_without_a_result_counts_as_not_taken() -> None:
    case = torch_evidence(probes={"fused": Missing("no time left"), "compile": probe(2.0)})

    assert taken_probe(case, "fused") is None
    assert taken_probe(case, "channels_last") is None
    assert taken_probe(case, "compile") == probe(2.0)


@pytest.mark.parametrize(
    ("body", "inherits"),
    [
        ("class Stack(nn.Sequential):\n    pass\n", True),
        ("class Stack(Sequential):\n    def forward(self, x): ...\n", False),
        ("class Stack(nn.Module):\n    def forward(self, x): ...\n", False),
        ("from stacks import Stack\n", False),
    ],
)
def test_a_class_has_the_forward_of_pytorch_if_it_says_so(body: str, inherits: bool) -> None:
    assert inherits_forward(body, "Stack") is inherits


def test_what_is_tried_is_bounded_by_the_high_end_of_a_probe() -> None:
    case = torch_evidence(probes={"fast": probe(1.2), "slow": probe(0.8)})

    assert to_try(case, "slow") == (pytest.approx(0.8 * 1.03), PROBED)
    bound, basis = to_try(case, "fast")
    assert basis == PROBED
    assert bound is not None
    assert bound == pytest.approx(1.02, abs=0.01)  # the probed part is a tenth of the step


def test_what_no_probe_says_or_only_noise_limits_nothing() -> None:
    case = torch_evidence(probes={"wide": probe(0.9, spread=0.3), "none": Missing("no time")})

    assert [to_try(case, name) for name in ("wide", "none", "")] == [(None, UNTRIED)] * 3


def test_noise_that_may_hide_the_whole_step_hides_nothing_to_try() -> None:
    noisy = replace(Measure(2.86, 4, (1.0, 4.7)), low=0.0, high=26.6)
    case = torch_evidence(resident=0.89, input=0.016)

    assert to_try(replace(case, times=replace(case.times, real_=noisy))) == (None, UNTRIED)


def test_a_step_that_is_all_waiting_leaves_nothing_to_try() -> None:
    with pytest.raises(NotMeasured):
        to_try(torch_evidence(resident=0.002, input=0.099))
