"""Arguments of a model's `compile`, set where the script has them from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainperf.fixes.common.seen import seen_in_call
from trainperf.rewrite.arguments import RecordedCall, set_argument
from trainperf.rewrite.wanted import Wanted

if TYPE_CHECKING:
    from trainperf.model import Evidence, Finding
    from trainperf.rewrite import Script

DEFAULTS: dict[str, object] = {
    "jit_compile": "auto",
    "run_eagerly": False,
    "steps_per_execution": 1,
}
"""Their values where `compile` is not given them (Keras 3)."""


def compile_seen(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data must hold for an argument to be set where it came from."""
    model = evidence.model
    return seen_in_call(
        evidence,
        jit_compile=model.jit_requested,
        run_eagerly=bool(model.run_eagerly),
        steps_per_execution=evidence.loop.steps_per_execution,
    )


def set_compile(script: Script, finding: Finding, name: str, value: str) -> None:
    """Give the call of `compile` an argument; raises `CannotRewrite` as `set_argument` does."""
    found = RecordedCall.of(finding.data, name, DEFAULTS)
    set_argument(script, finding.where[0], Wanted(name, value), found)
