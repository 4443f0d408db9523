"""Whether ending compilations lasts, and what is bound by the time of operators."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.errors import NotMeasured
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.fixes.torch_step.compiling import TorchRecompiling, fusing


def test_a_gain_lasts_only_where_pytorch_has_given_up_compiling() -> None:
    fix = TorchRecompiling()
    for limit, lasting_s in ((True, 0.0), (False, 0.003)):
        laid = {"limit": limit, "lasting_s": lasting_s}
        case = {f"torch.compiling.recompiling.{name}": value for name, value in laid.items()}
        (found,) = shown_findings(evidence_of("compiled_lengths", case), among=[fix])
        assert fix.lasts(found) is limit


def test_without_a_trace_nobody_knows_what_compiling_saves() -> None:
    with pytest.raises(NotMeasured):
        fusing(evidence_of("torch_small_kernels | torch.trace = null"))


@pytest.mark.parametrize("traced_s", [None, 0.2])
def test_products_are_left_and_all_else_of_a_cpus_passes_could_go(traced_s: float | None) -> None:
    seen = evidence_of("torch_small_kernels", {"torch.trace.seconds": traced_s})
    trace, compute = seen.torch.trace, compute_seconds(seen)
    assert trace is not None
    assert trace.fusable_s is not None
    slowed = compute / traced_s if traced_s else 1.0  # the tracer slows what is left as well
    left = (trace.operators_s - trace.fusable_s) * slowed
    assert fusing(seen).saved == pytest.approx(compute - left)
