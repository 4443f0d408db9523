"""What a line of cases says is laid over a recording, and what it cannot say fails."""

from __future__ import annotations

import msgspec
import pytest

from fixes.case_text import case_of, evidence_of
from trainperf.model import Evidence, Measure, Missing, Probe

FAILURES = (AssertionError, AttributeError, LookupError, StopIteration, msgspec.ValidationError)
NAME = "torch_loop_samplers"


def laid(fields: str) -> Evidence:
    return evidence_of(f"{NAME} | {fields}  # why")


def test_numbers_become_measures_and_probes() -> None:
    real = laid("times.real = 0.1").times.real_
    assert isinstance(real, Measure)
    assert (real.seconds, real.low, real.high) == pytest.approx((0.1, 0.098, 0.102))
    probe = laid("probes.fused = 1.2 ± 0.3").probes["fused"]
    assert isinstance(probe, Probe)
    assert (probe.ratio, probe.low, probe.high) == pytest.approx((1.2, 0.9, 1.5))
    assert laid('torch.split = missing "no time"').torch.split_ == Missing("no time")


def test_what_is_left_out_last_is_what_a_silent_line_is_about() -> None:
    case = case_of(f"no {NAME} | loop.epochs = 3; loop.batch_size = 4")
    assert [less.laid for less in case.shorter()] == [(), (("loop.epochs", 3),)]


@pytest.mark.parametrize(
    "fields",
    [
        "loop.epoch = 3",
        'loop.epochs = "3"',
        "times.real = true",
        "device = NO_SUCH_BOX",
        'torch.models[0] = {"class": "Net"}',
        "torch.split[no_such_part].seconds = 1",
        "loop.epochs = 1; loop.epochs = 2; loop.epochs = 3; loop.epochs = 4",
        "loop.epochs = 1 2",
    ],
)
def test_what_evidence_cannot_hold_fails(fields: str) -> None:
    with pytest.raises(FAILURES):
        laid(fields)
