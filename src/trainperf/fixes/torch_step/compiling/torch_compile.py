"""A PyTorch model that starts many small kernels one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import (
    PROBE_LEAST,
    bound_by,
    bound_if_saved,
    saved_by,
    step_seconds,
)
from trainperf.fixes.common.words import ms, percent, times, worth
from trainperf.fixes.torch_step._source import OF_TORCH, file_text, inherits_forward, model_target
from trainperf.fixes.torch_step._step import (
    PROBED,
    compute_seconds,
    planned_steps,
    taken_probe,
    to_try,
)
from trainperf.model import Equivalence, Evidence, Finding, Probe, Site, TorchModel, Trace, is_taken
from trainperf.rewrite import Script

MOSTLY = 0.70
"""Share of the operators' time in those that compiling can put together, from which a CPU is
worth compiling for without a probe. Below, compiled code is often slower there: a small GPT,
with half of its time in products, ran at 0.90 of its speed."""

GAINS = 0.20
"""Share of forward and backward on a GPU that operators to be put together and gaps between
kernels must have: 1.25 times as fast at most. PyTorch's own figures for compiling are 1.21 in
float32 and 1.51 under AMP, the mean of 163 models on an A100 (announcement of PyTorch 2.0)."""

MOST_SHAPES = 3
"""Input shapes up to which compiling one by one, or once for all, is soon over."""


class Compile(Fix):
    """Compile the model with `torch.compile`, so that small operations are fused.

    ## Why it is slow
    Without it Python starts each operation by itself. Each reads its input from memory
    and writes its result back: a GPU that is always busy may be so with little else.
    Starting one takes as long as a small one runs, and a GPU then waits for its next kernel.

    ## What changes
    The model is compiled in place (`model.compile()`) at its first call, which takes
    seconds to minutes once. The mathematics is the same, rounding differs. A model that is
    one of PyTorch's own classes, such as `Sequential`, is wrapped instead
    (`torch.compile(model)`): the names in its `state_dict` then begin with `_orig_mod.`.
    Where it has a list of at least four blocks of one class, compiling each block is tried as
    well: the code of one serves for all, which takes less time once. The better way is the one
    with which the whole training, as configured, ends sooner.

    ## When not to
    - Inputs of many shapes are compiled again and again.
    - Runs too short to earn the compilation back.
    - Large convolutions or matrix products on a CPU: compiled code is often slower there.
    - Losses that need gradients of gradients (`create_graph=True`): they raise.
    - On a CPU it needs a C++ compiler.
    """

    category = "model"
    usual = 1.0
    compiles = True
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a model whose step ran faster compiled, or whose operators can be put together."""
        if not _compilable(evidence):
            return None
        measured = taken_probe(evidence, "compile")
        if measured is not None:
            return self._probed(evidence, evidence.torch.model, measured)
        trace = evidence.torch.trace
        if evidence.device.kind != "GPU":
            return self._small_operators(evidence, evidence.torch.model)
        if trace is None or trace.fusable_s is None:
            return None
        return self._kernels(evidence, evidence.torch.model, trace, trace.fusable_s)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try any model that can be compiled, but on a CPU none that is all products.

        There compiled code is often slower: a trace that leaves nothing to put together says so.
        """
        if not _compilable(evidence):
            return None
        if evidence.device.kind != "GPU" and not evidence.torch.flag("cpp_compiler"):
            return None
        bound, basis = to_try(evidence, "compile")
        measured, model = taken_probe(evidence, "compile"), evidence.torch.model
        if measured is None and (traced := _bound_by_trace(evidence)) is not None:
            if evidence.device.kind != "GPU" and not worth(evidence, traced):
                return None
            bound, basis = traced, FUSING
        text = f"Python starts each operation of {model.cls} by itself."
        if measured is not None and bound is not None:
            text += f" {_seen(measured)}"
        return self._finding(evidence, model, text, bound, basis)

    def _probed(self, evidence: Evidence, model: TorchModel, measured: Probe) -> Finding | None:
        if measured.low < PROBE_LEAST:
            return None
        saved = saved_by(evidence, measured)
        steps = round(measured.one_off_s / max(saved, 1e-9)) + 1
        planned = planned_steps(evidence)
        if planned is not None and steps >= planned:
            return None
        text = _seen(measured)
        if measured.one_off_s:
            text += f" Compiling took {ms(measured.one_off_s)}, which {steps:,} steps earn back."
        bound = bound_by(evidence, measured)
        if not worth(evidence, bound):
            return None
        return self._finding(evidence, model, text, bound, PROBED)

    def _kernels(
        self, evidence: Evidence, model: TorchModel, trace: Trace, fusable_s: float
    ) -> Finding | None:
        """Judge a GPU by its trace: at most what is to be put together can go, and all gaps."""
        could = fusing(evidence)
        compute = could.compute
        bound = bound_if_saved(evidence, could.saved)
        if could.saved < GAINS * compute or not worth(evidence, bound):
            return None
        text = (
            f"Forward and backward take {ms(compute)} of the {ms(evidence.times.real)} step. When "
            f"they were traced, {percent(fusable_s / max(trace.operators_s, 1e-9))} of the time of "
            "their kernels was in operators that do little but read and write memory, element by "
            f"element, for sums and norms, and {percent(could.gaps / compute)} of forward and "
            "backward passed between kernels. Compiling can put such operators together."
        )
        basis = "no time left in these operators and between kernels"
        return self._finding(evidence, model, text, bound, basis)

    def _small_operators(self, evidence: Evidence, model: TorchModel) -> Finding | None:
        """Judge a CPU by the time of its operators: at most all of it outside products can go."""
        trace = evidence.torch.trace
        if trace is None or trace.fusable_s is None:
            raise NotMeasured("what compiling saves on a CPU takes a probe or a trace to say")
        share = trace.fusable_s / max(trace.operators_s, 1e-9)
        if share < MOSTLY:
            return None
        compute = compute_seconds(evidence)
        text = (
            f"Forward and backward take {ms(compute)} of the {ms(evidence.times.real)} step. "
            f"When they were traced, {percent(share)} of their operators' time was in others than "
            "products, convolutions and look-ups, which compiling can put together."
        )
        bound = bound_if_saved(evidence, compute * share)
        if not worth(evidence, bound):
            return None
        return self._finding(evidence, model, text, bound, "no time left in these operators")

    def _finding(
        self, evidence: Evidence, model: TorchModel, text: str, bound: float | None, basis: str
    ) -> Finding:
        name = model.name or "model"
        wrapped = model.cls in OF_TORCH
        compiler = "" if evidence.device.kind == "GPU" else " It needs a C++ compiler."
        return self.finding(
            title=f"{model.cls} is not compiled",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(model.where,) if model.where else (),
            advice="Compile the model right after it is built; its first step then takes seconds "
            f"to minutes.{compiler}",
            snippet=f"{name} = torch.compile({name})" if wrapped else f"{name}.compile()",
            data={"cls": model.cls, **by_block(model)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Compile the model on the line after the one that builds it."""
        site = finding.where[0]
        name, cls = model_target(script, site), finding.data["cls"]
        if finding.data.get(COMPILED) == BY_BLOCK:
            compile_blocks(script, site, name, finding.data["blocks"])
            return
        text = file_text(script, site.file)
        if not (cls in OF_TORCH or inherits_forward(text, cls)):
            script.insert_after(site, f"{name}.compile()")
            return
        if "state_dict" in text or "torch.save" in text:
            raise CannotRewrite(f"wrapping {cls} would change the names in its checkpoints")
        torch = script.module_name(site.file, "torch", site)
        script.insert_after(site, f"{name} = {torch}.compile({name})")


def _compilable(evidence: Evidence) -> bool:
    """Whether the model is not compiled and can be, without doing so again and again."""
    torch = evidence.torch
    if torch.model.compiled or torch.model.shapes > MOST_SHAPES:
        return False
    if torch.calls is not None and torch.calls.retains_graph:  # gradients of gradients
        return False
    return evidence.device.kind == "GPU" or torch.flags.get("cpp_compiler") is not False


def _bound_by_trace(evidence: Evidence) -> float | None:
    """The most that compiling gives by the times of its operators; None where not traced."""
    try:
        return bound_if_saved(evidence, fusing(evidence).saved)
    except NotMeasured:
        return None


def _seen(measured: Probe) -> str:
    return (
        f"Compiled, the same computation ran {times(measured.ratio)} as fast in this run "
        f"({ms(measured.base_s)} → {ms(measured.candidate_s)})."
    )


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
        gaps = min(trace.gap_s or 0.0, max(0.0, compute / passes - trace.busy_s))
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
