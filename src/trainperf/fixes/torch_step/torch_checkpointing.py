"""Activations that are computed twice to save memory that is free."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import GIB, ms, percent, worth
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import keyword
from trainperf.source.statements import called

ROOM = 0.60
"""Share of the GPU's memory below which a peak leaves room for activations."""


ITS_OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "context_fn")
"""Keywords of `torch.utils.checkpoint.checkpoint`; others are those of what it calls."""


class NoCheckpointing(Fix):
    """Keep the activations where there is memory for them.

    ## Why it is slow
    Gradient checkpointing drops what the forward computed, and computes it again in the
    backward: one more forward in each step.

    ## What changes
    Without it the step has one forward. Its activations stay in memory until the
    backward, which may be several times what is used now.

    ## When not to
    - How much memory it takes is known only by trying. Checkpointing every second
      block is halfway.
    - Longer inputs than those of the first steps may come later.
    """

    category = "model"
    equivalence = Equivalence.EXACT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a checkpointed model beside free memory; its second forward can go."""
        model, memory = evidence.torch.model, evidence.torch.memory
        peak, total = memory.get("allocated_peak"), memory.get("total")
        if evidence.device.kind != "GPU" or not model.checkpointing or not peak or not total:
            return None
        if peak >= ROOM * total:
            return None
        forward = part_seconds(evidence, "forward")
        bound = bound_if_saved(evidence, forward)
        if not worth(evidence, bound):
            return None
        return self.finding(
            title=f"{model.cls} computes its activations twice, with memory to spare",
            text=f"Gradient checkpointing runs the forward again in the backward: up to "
            f"{ms(forward)} of the {ms(evidence.times.real)} step. At its peak, training took "
            f"{peak / GIB:.1f} of {total / GIB:.1f} GiB ({percent(peak / total)}).",
            bound=bound,
            bound_basis="one forward less in each step",
            where=model.checkpoints or ((model.where,) if model.where else ()),
            rewritable=bool(model.checkpoints) and all(site.exact for site in model.checkpoints),
            advice="Turn gradient checkpointing off, or use it in every second block only.",
            snippet="model.gradient_checkpointing_disable()  # of the transformers library",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call what is checkpointed itself; in a library's model, do not turn it on."""
        for site in finding.where:
            _call_itself(script, site)


def _call_itself(script: Script, site: Site) -> None:
    """Make `checkpoint(f, x, use_reentrant=False)` at `site` a call of `f`."""
    source = script.source(site.file)
    call = source.call(site)
    if called(call) != "checkpoint" or not call.args:
        _leave_off(script, site)
        return
    if any(isinstance(each, ast.Starred) for each in call.args[:1]):
        raise CannotRewrite("what is checkpointed comes as *args")
    given = [source.text_of(each) for each in call.args[1:]]
    given += [source.text_of(each) for each in call.keywords if each.arg not in ITS_OWN]
    head = source.text_of(call.args[0])
    plain = isinstance(call.args[0], ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    script.replace_call(site, f"{head if plain else f'({head})'}({', '.join(given)})")


def _leave_off(script: Script, site: Site) -> None:
    """Take out what turns checkpointing on in a library's model, in the file of `site`."""
    on = [
        node
        for node in ast.walk(script.module(site.file))
        if isinstance(node, ast.Call) and called(node) == "gradient_checkpointing_enable"
    ]
    asked = [
        node
        for node in ast.walk(script.module(site.file))
        if isinstance(node, ast.Call)
        and ast.unparse(getattr(keyword(node, "gradient_checkpointing"), "value", node)) == "True"
    ]
    if len(on) + len(asked) != 1:
        raise CannotRewrite("no one place of the file turns checkpointing on")
    for node in on:
        script.remove_statements([script.site_of(site, node)])
    for node in asked:
        script.set_keyword(script.site_of(site, node), "gradient_checkpointing", "False")
