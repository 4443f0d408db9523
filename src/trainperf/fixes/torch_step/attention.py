"""Attention whose scores are written to memory: by hand, or without a fused kernel."""

from __future__ import annotations

import ast
from functools import partial

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import at, if_measured, make_those_that_can_be, ms, percent
from trainperf.fixes.rows import SetArgument
from trainperf.fixes.torch_step._attention import use_kernel
from trainperf.fixes.torch_step._step import compute_seconds, part_seconds
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.statements import last_name

MOST_NAMED = 3

WHY = {
    "dropout": "no fused kernel of this device drops weights out",
    "mask gradient": "its mask requires a gradient",
    "mask": "no fused kernel takes a mask of this shape or type",
    "memory": "the last dimension of a tensor is not the one that lies together in memory",
    "dimensions": "its tensors have three dimensions, not four",
    "width": "its values are not as wide as its keys",
    "type or shape": "no fused kernel takes this type or head size on this device",
    "off": "fused kernels are turned off",
}
"""What keeps attention from a fused kernel, by what its arguments were seen to need."""

ADVICE = {
    "dropout": "Drop out after the attention, or none in it: few models lose by that.",
    "mask gradient": "Make the mask without a gradient (`mask.detach()`), or a bias of few "
    "numbers that `flex_attention` adds.",
    "mask": "Give a boolean mask that broadcasts to batch, heads, queries and keys, or "
    "`is_causal=True` and none.",
    "memory": "Call `.contiguous()` on it once, or shape heads so that their width comes last.",
    "dimensions": "Give it a batch and heads: `query.unsqueeze(0)`.",
    "width": "Pad the values to the width of the keys, and cut the result.",
    "type or shape": "Compute it in bfloat16 or float16, with heads of a multiple of 8 up to 256.",
    "off": "Leave the choice to PyTorch: no `sdpa_kernel` or `enable_…_sdp` around it.",
}

OF_ATTENTION = (
    "aten::bmm", "aten::baddbmm", "aten::_softmax", "aten::_softmax_backward_data", "aten::where",
    "aten::bernoulli_", "aten::native_dropout", "aten::native_dropout_backward", "aten::add",
    "aten::mul", "aten::div", "aten::masked_fill", "aten::copy_",
)  # fmt: skip
"""Operators that attention written out is made of, those that other layers call as well."""

TAKE_IT = ("from_pretrained", "from_config", "_from_config")
"""What builds a model and takes its `attn_implementation`; a class takes it by its config."""


class TorchSdpa(Fix):
    """Compute attention in one kernel, with `F.scaled_dot_product_attention`.

    Why slow: Written out, attention makes a matrix of scores for each pair of positions, scales
    it, masks it, takes the softmax and multiplies it with the values, each in memory, and backward
    again.
    Changes: One function does all of it block by block, and the matrix is never stored. Masks go
    in as `attn_mask`, a triangle as `is_causal`. The result is the same but for rounding; dropout
    draws other random numbers. A row that is hidden whole by -inf gives 0, where it gave NaN.
    When not:
    - When the attention weights themselves are wanted (plots, extra losses): no edit then.
    - Not every kernel takes a mask, or dropout: on a CPU dropout makes it slower.
    """

    usual = 1.25
    rarely_all = True
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find each `forward` that seems to compute attention by hand."""
        heads = evidence.torch.model.attentions
        if not heads:
            return None
        names = " and ".join(f"`{head.function}` at {at(head)}" for head in heads[:MOST_NAMED])
        share = _share(evidence, heads)
        found, basis = "", "at most all of forward and backward"
        if share is not None:
            found = f" It was found in {percent(share)} of the samples of the stack."
            basis = "at most all of this function, its backward in proportion"
        return Cause(
            title=f"Attention is written out by hand ({at(heads[0])})",
            text=f"Attention seems to be computed by hand in {names}.{found}",
            saves=Saving(basis, lambda: _seconds(evidence, share)),
            where=heads,
            snippet="""\
import torch.nn.functional as F

# q, k, v: (batch, heads, positions, size of a head)
# mask: None, numbers to be added, or True where a key is seen; rate: 0.0 in evaluation
out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)
# in place of a mask that hides the later positions, and no others: is_causal=True""",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put the attention of each function into one call, unless that can be done in none."""
        make_those_that_can_be(script, (partial(use_kernel, site=site) for site in finding.where))


def _seconds(evidence: Evidence, share: float | None) -> float:
    """Seconds of a step in attention, at most: by its share of the forward, else all passes."""
    compute = compute_seconds(evidence)
    if share is None:
        return compute
    forward = part_seconds(evidence, "forward")
    if forward <= 0:
        raise NotMeasured("the forward took no time")
    passes = 1 + part_seconds(evidence, "backward") / forward
    return min(compute, share * evidence.times.real * passes)


def _share(evidence: Evidence, heads: tuple[Site, ...]) -> float | None:
    """Share of the stack samples that found the functions at `heads`; None if it says nothing.

    On a GPU the stack shows what is started, not what runs. A function that is not
    among those sampled was found too seldom to be listed.
    """
    if evidence.device.kind == "GPU" or not evidence.functions:
        return None
    total = 0.0
    for head in heads:
        inside = [
            cost
            for cost in evidence.functions
            if (cost.file, cost.thread) == (head.file, "main")
            and cost.name.rpartition(".")[2] == head.function.rpartition(".")[2]
            and cost.line >= head.line
        ]
        nearest = min(inside, key=lambda cost: cost.line, default=None)
        total += nearest.share if nearest else 0.0
    return min(1.0, total)


class TorchAttentionUnfused(Fix):
    """Let `scaled_dot_product_attention` take one of its fused kernels.

    Why slow: It has kernels that never write the matrix of scores to memory. Where its arguments
    suit none of them, it multiplies, adds, takes a softmax and multiplies again, over that whole
    matrix.
    Changes: What keeps the kernel off: a mask of another form, dropout elsewhere, another order in
    memory. Tensors of three dimensions get a fourth one for the call.
    When not: Where what keeps it off is what the model is about, as a learned bias for each pair.
    """

    usual = 1.3
    equivalence = Equivalence.NUMERICS
    without_edit = "what keeps the kernel off may be what the model is about"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find lines whose attention PyTorch said to compute without a fused kernel."""
        found = [line for line in evidence.lines.lines if line.looks and line.looks.unfused]
        if not found:
            return None
        takes = sum(
            max(line.of("operators", "backward"), line.device_s or 0.0)  # a GPU runs it later
            for line in found
        )
        dearest = max(found, key=lambda line: line.seconds)
        assert dearest.looks is not None
        why = (dearest.looks.unfused or "").split(", ")
        return Cause(
            title=f"Attention has no fused kernel: {', and '.join(WHY[part] for part in why)}",
            text=f"PyTorch was asked for the call at {at(dearest.where)}. The operators of "
            f"{'that line' if len(found) == 1 else f'{len(found)} such lines'} take {ms(takes)} of "
            f"each step of {ms(evidence.lines.seconds)}, forward and backward.",
            saves=Saving(
                "at most all operators where attention is called",
                ratio=evidence.bound_if_step_saves(takes),
            ),
            where=tuple(line.where for line in found),
            advice=" ".join(ADVICE[part] for part in why),
            snippet="out = torch.nn.functional.scaled_dot_product_attention(query, key, value)",
        )


class TorchEagerAttention(Fix):
    """Let a model of Transformers attend in one kernel: `attn_implementation="sdpa"`.

    Why slow: With "eager" the library writes attention out: a matrix of scores for each pair of
    positions is multiplied, scaled, masked, taken the softmax of and multiplied again, each time
    in memory.
    Changes: The model calls `scaled_dot_product_attention`, the library's own choice where nothing
    is set. The result is the same but for rounding; dropout draws other random numbers.
    When not:
    - Where attention weights are wanted (`output_attentions`): only "eager" has them.
    - Some models say to be trained with "eager", Gemma 2 for one: it caps its scores.
    """

    usual = 1.25
    rarely_all = True
    equivalence = Equivalence.NUMERICS
    edit = SetArgument("attn_implementation", '"sdpa"')

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a model that was set to write its scores out, and was seen to take a softmax."""
        where, trace = evidence.torch.model.eager, evidence.torch.trace
        if where is None or (trace and not any("softmax" in op.name for op in trace.operators)):
            return None
        takes = if_measured(
            lambda: (
                f" The operators that it is made of take {ms(_attending_s(evidence))} of each "
                f"step of {ms(evidence.times.real)}, forward and backward, in all layers."
            )
        )
        return Cause(
            title=f"{evidence.torch.model.cls} writes out its attention, by a setting",
            text=f'Its `attn_implementation` is "eager" ({at(where)}), and its class has fused '
            f"attention.{takes}",
            saves=Saving("at most all operators of attention", lambda: _attending_s(evidence)),
            where=(where,),
            snippet='model = AutoModel.from_pretrained(name, attn_implementation="sdpa")',
            data=seen_in_call(evidence, attn_implementation="eager"),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Change it where the model is built, or, of a class that is called, in its config."""
        for site in finding.where:
            call = script.call(site)
            if last_name(call.func) not in TAKE_IT:
                config = argument(call, "config", 0)
                made = None if config is None else script.source(site.file).module.value(config)
                if not isinstance(made, ast.Call):
                    raise CannotRewrite("it is not seen where the model's config is made")
                site = script.site_of(site, made)
            self.edit.set(script, site, finding)


def _attending_s(evidence: Evidence) -> float:
    """Seconds of a step in operators that attention is made of; raises `NotMeasured`."""
    trace = evidence.torch.trace
    if trace is None:
        raise NotMeasured("what attention takes needs a trace")
    attending = sum(op.seconds for op in trace.operators if op.name in OF_ATTENTION)
    return compute_seconds(evidence) * attending / max(trace.operators_s, 1e-9)
