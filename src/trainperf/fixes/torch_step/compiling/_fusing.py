"""The time of forward and backward that compiled code could save at most, by a trace of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trainperf.errors import NotMeasured
from trainperf.fixes.torch_step._step import compute_seconds, step_seconds
from trainperf.model import Evidence, is_taken

if TYPE_CHECKING:
    from trainperf.model import Site, TorchModel
    from trainperf.rewrite import Script


FUSING = "no time left in operators that compiling can put together, and between operators"

COMPILED, _WHOLE, BY_BLOCK = "compiled", "the model", "each block"
"""Key of a finding's data, and its two values."""
_NAMES = ("block", "each_block", "compiled_block")


@dataclass(frozen=True)
class Fusing:
    """Seconds of a step: `compute` in forward and backward, of which `saved` could go at most.

    `gaps` pass between the kernels of a GPU, 0 on a CPU.
    """

    compute: float
    gaps: float
    saved: float


def fusing(evidence: Evidence) -> Fusing:
    """What goes where all that compiling can put together takes no time at all.

    Products, convolutions, attention and look-ups are left as they are. Raises `NotMeasured`
    without a trace, or the time of a step.
    """
    trace, calls = evidence.torch.trace, evidence.torch.calls
    if trace is None or trace.fusable_s is None:
        raise NotMeasured("what compiling saves takes a trace to say")
    passes = max(1.0, calls.backwards) if calls is not None else 1.0
    taken_apart = is_taken(evidence.torch.split_)
    compute = compute_seconds(evidence) if taken_apart else step_seconds(evidence)
    if evidence.device.kind == "GPU":
        # The tracer holds up what starts the kernels: gaps are no more than what forward and
        # backward take beyond them in the loop.
        gaps = min(trace.gap_s or 0.0, max(0.0, compute / passes - trace.operators_s))
        saved = min(compute, passes * (gaps + trace.fusable_s))
        return Fusing(compute, passes * gaps, saved)
    left = trace.operators_s - trace.fusable_s
    if trace.seconds:  # the tracer holds up each operator
        left *= min(1.0, compute / passes / trace.seconds)
    return Fusing(compute, 0.0, max(0.0, compute - passes * left))


def by_block(model: TorchModel) -> dict[str, Any]:
    """Return what a finding's data holds for both ways to be tried; nothing without blocks."""
    if not model.blocks:
        return {}
    return {
        "blocks": [asdict(one) for one in model.blocks],
        "variants": [{COMPILED: _WHOLE}, {COMPILED: BY_BLOCK}],
    }


def compile_blocks(
    script: Script,
    site: Site,
    name: str,
    blocks: Sequence[dict[str, Any]],
    keywords: str = "",
    instead: bool = False,
) -> None:
    """Compile all blocks of the model `name` behind the statement at `site`, or in place of it.

    `keywords` are those of the call, as source.
    """
    free = script.free_name(site.file, *_NAMES)
    made = "\n".join(
        f"for {free} in {name}{one['path']}:\n    {free}.compile({keywords})" for one in blocks
    )
    if instead:
        script.replace_statement(site, made)
    else:
        script.insert_after(site, made)
