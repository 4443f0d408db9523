"""The worth of the parts of a PyTorch step, and the name of its model."""

from __future__ import annotations

import json

import pytest

from fixes.case_text import evidence_of
from rewriting import script_of
from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes.common.step import bound_if_saved, saved_by, step_seconds
from trainperf.fixes.torch_step._source import inherits_forward, model_target
from trainperf.fixes.torch_step._step import (
    compute_seconds,
    part_seconds,
    taken_probe,
)
from trainperf.model import Evidence, Probe


def apart(laid: str = "times.real = 0.1", **seconds: float) -> Evidence:
    """A step that was taken apart: `apart(forward=0.03, backward=0.06)`."""
    parts = [{"name": name, "seconds": part} for name, part in seconds.items()]
    return evidence_of(f"torch_healthy | {laid}; torch.split = {json.dumps(parts)}")


def probe(ratio: float) -> Probe:
    """A probe of 10 ms."""
    return evidence_of(f"torch_healthy | probes.some = {ratio}").probe("some")


def test_a_part_that_was_not_seen_is_not_zero() -> None:
    with pytest.raises(NotMeasured):
        part_seconds(apart(forward=0.05), "optimizer")


@pytest.mark.parametrize(
    ("forward", "optimizer", "part"),
    [
        (0.1, 0.1, 0.05),  # parts of slowed steps shrink until they fit into a real one
        (0.05, 0.01, 0.01),
    ],
)
def test_parts_fit_into_a_real_step(forward: float, optimizer: float, part: float) -> None:
    case = apart(forward=forward, optimizer=optimizer)
    assert part_seconds(case, "optimizer") == pytest.approx(part)


def test_waiting_for_a_gpu_is_computing() -> None:
    parts = {"forward": 0.01, "backward": 0.02, "sync": 0.05}
    assert compute_seconds(apart(**parts)) == pytest.approx(0.03)
    assert compute_seconds(apart("times.real = 0.1; device = GPU", **parts)) == pytest.approx(0.08)


def test_a_loop_without_a_loader_has_its_real_step() -> None:
    case = evidence_of("torch_memmap_gpt")
    assert step_seconds(case) == case.times.real


def test_a_probe_of_a_part_saves_no_more_than_that_part() -> None:
    case = evidence_of("torch_healthy | times.resident = 0.08")
    assert saved_by(case, probe(2.0)) == pytest.approx(0.005)


def test_a_probe_saves_no_more_than_its_share_of_the_step() -> None:
    times = "times.real = 0.008; times.resident = 0.008; times.input = missing"
    case = evidence_of(f"torch_healthy | {times}")

    assert saved_by(case, probe(2.0)) == pytest.approx(0.004)
    assert bound_if_saved(case, saved_by(case, probe(2.0))) == pytest.approx(2.0)


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
    case = evidence_of("torch_healthy | probes.fused = missing; probes.some = 2")

    assert taken_probe(case, "fused") is None
    assert taken_probe(case, "channels_last") is None
    assert taken_probe(case, "some") == probe(2)


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
