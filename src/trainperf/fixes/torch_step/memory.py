"""What is kept in memory, copied into it, or computed again, without need."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import GIB, at, ms, percent
from trainperf.fixes.torch_step import _source as source
from trainperf.fixes.torch_step._step import part_said, part_seconds
from trainperf.model import Equivalence, Evidence, Finding, Outside, Site
from trainperf.rewrite import Script
from trainperf.source.bodies import reached
from trainperf.source.module import Module
from trainperf.source.statements import called, walk

ROOM = 0.60
"""Share of the GPU's memory below which a peak leaves room for activations."""

ITS_OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "context_fn")
"""Keywords of `torch.utils.checkpoint.checkpoint`; others are those of what it calls."""

MAY_TRAIN = re.compile(
    r"train|fit|optimi[sz]e|^grad$|requires_grad|enable_grad|jacobian|hessian|^backward$|^step$",
    re.IGNORECASE,
)
"""Names of calls that may train, or that ask for gradients: of forces, of an attack."""

LEAST_SHARE = 0.10
"""Share of a step in copies below which they are no subject."""

OF_A_BATCH = 4
"""Copies per step that a batch may well need: more of them are of something else."""


class TorchCheckpointing(Fix):
    """Keep the activations where there is memory for them.

    Why slow: Gradient checkpointing drops what the forward computed, and computes it again in the
    backward: one more forward in each step.
    Changes: Without it the step has one forward. Its activations stay in memory until the
    backward, which may be several times what is used now.
    When not:
    - How much memory it takes is known only by trying. Checkpointing every second block is
      halfway.
    - Longer inputs than those of the first steps may come later.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a checkpointed model beside free memory; its second forward can go."""
        model, memory = evidence.torch.model, evidence.torch.memory
        peak, total = memory.get("allocated_peak"), memory.get("total")
        if evidence.device.kind != "GPU" or not model.checkpointing or not peak or not total:
            return None
        if peak >= ROOM * total:
            return None
        return Cause(
            title=f"{model.cls} computes its activations twice, with memory to spare",
            text="Gradient checkpointing runs the forward again in the backward. At its peak, "
            f"training took {peak / GIB:.1f} of {total / GIB:.1f} GiB ({percent(peak / total)})."
            f"{part_said(evidence, 'Forward takes', 'forward')}",
            saves=Saving(
                "one forward less in each step", lambda: part_seconds(evidence, "forward")
            ),
            where=model.checkpoints or ((model.where,) if model.where else ()),
            rewritable=bool(model.checkpoints) and all(site.exact for site in model.checkpoints),
            snippet="model.gradient_checkpointing_disable()  # of the transformers library",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call what is checkpointed itself."""
        for site in finding.where:
            file = script.source(site.file)
            call = file.call(site)
            if called(call) != "checkpoint" or not call.args:
                raise CannotRewrite("a library checkpoints: it is a setting of its model")
            given = [file.text_of(argument) for argument in call.args[1:]]
            given += [file.text_of(given) for given in call.keywords if given.arg not in ITS_OWN]
            head = file.text_of(call.args[0])
            if not isinstance(call.args[0], ast.Name | ast.Attribute | ast.Subscript | ast.Call):
                head = f"({head})"
            script.replace_call(site, f"{head}({', '.join(given)})")


class TorchEvaluationGrad(Fix):
    """Evaluate under `torch.no_grad()`.

    Why slow: A forward outside `no_grad` records the graph for a backward that never comes: a node
    for each operation, and all activations stay in memory until the output is dropped.
    Changes: The function that evaluates is decorated with `@torch.no_grad()`, or its loop, or its
    call in a function that trains, stands under `with torch.no_grad():`. The outputs are the same.
    When not: Where gradients of the outputs are asked for (saliency, adversarial examples).
    """

    counted = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find an evaluation whose forwards autograd records."""
        seen = evidence.torch.evaluation
        if seen is None or not seen.grad:
            return None
        text = "Autograd records the forwards of the evaluation, and no backward follows."
        saves: Saving | Unpriced = Unpriced("not measured")
        epoch = _epoch(evidence)
        if epoch is not None:
            validation, whole, turn = epoch
            ratio = whole / max(whole - validation, 1e-9)
            saves = Saving("at most all of the evaluation", of="all", ratio=ratio)
            text += (
                f" The evaluation takes {ms(validation)} of each {turn} of {ms(whole)} "
                f"({percent(validation / whole)})."
            )
        where, calls = seen.where, evidence.torch.calls
        name = "" if where is None else where.function
        trains = None if calls is None else calls.backward
        beside = bool(where and trains and (where.file, name) == (trains.file, trains.function))
        return Cause(
            title=f"The evaluation{f' ({at(where)})' if where else ''} runs with gradients on",
            text=text,
            saves=saves,
            where=(where,) if where is not None else (),
            data={"beside": True} if beside else {},
            snippet=f"@torch.no_grad()\ndef {name}(...):"
            if name.isidentifier() and not beside
            else "with torch.no_grad():\n    output = model(x)",
            slices="steps" if epoch is None else "none",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Decorate the function that evaluates, else put its loop or call under `no_grad`."""
        site = finding.where[0]
        module, function = script.source(site.file).module, source.function_around(script, site)
        if function is not None and any(
            isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in walk(function.body)
        ):
            raise CannotRewrite(f"{function.name} is a generator")
        torch = script.module_name(site.file, "torch", site)
        if function is not None and not _may_train(module, function.body):
            script.decorate(replace(site, line=function.lineno, col=0), f"{torch}.no_grad()")
            return
        for node in script.around(site):
            own = function is None or function.lineno < node.lineno
            if own and isinstance(node, source.Loop) and not _may_train(module, [node]):
                head = Site(site.file, node.lineno, site.function)
                script.wrap_statements(head, head, f"with {torch}.no_grad():")
                return
        if finding.data.get("beside") and not _may_train(module, script.around(site)[-1:]):
            script.wrap_statements(site, site, f"with {torch}.no_grad():")
            return
        raise CannotRewrite("what evaluates stands in what trains")


def _epoch(evidence: Evidence) -> tuple[float, float, str] | None:
    """Seconds of the evaluation, of the turn it comes in with it, and the turn's name.

    That is an epoch, or the steps from one evaluation to the next; None if unknown.
    """
    turn = evidence.outside_
    if isinstance(turn, Outside) and turn.turn == "evaluation":
        return turn.seconds - turn.training_s, turn.seconds, "turn"
    pause = evidence.between_epochs
    if pause is None or not pause.sure or pause.validation_s is None:
        return None
    steps = pause.epoch_steps or evidence.loop.epoch_steps
    if not steps:
        return None
    return pause.validation_s, steps * evidence.times.real + pause.seconds, "epoch"


def _may_train(module: Module, body: Sequence[ast.stmt]) -> bool:
    """Whether statements train, by themselves or by functions of the file; `x.train()` does not."""
    calls = [node for node in reached(module, body) if isinstance(node, ast.Call)]
    return any(
        MAY_TRAIN.search(called(call)) is not None
        and not (called(call) == "train" and isinstance(call.func, ast.Attribute))
        for call in calls
    )


class TorchTransfers(Fix):
    """Make tensors on the GPU, and move only what must be moved.

    Why slow: A tensor that is built on the CPU and moved with `.to(device)` is written twice, and
    Python waits for the copy. Masks, position numbers and constants need not cross at all.
    Changes: With `device=device` the GPU makes the tensor itself. What never changes is made once,
    before the loop, or is a buffer of the model. Of batches out of pinned memory the copy is not
    waited for (`non_blocking=True`): that is edited.
    When not:
    - Random numbers made on the GPU come from another stream.
    - Data that fits into the GPU's memory can be moved there once; else pin it and copy with
      `non_blocking=True`.
    - Copies on a stream of their own that the step never waits for cost it nothing.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find copies of a tenth of a step that pinning the loader would not explain."""
        if evidence.device.kind != "GPU":
            return None
        part, seconds = evidence.torch.part("transfer"), part_seconds(evidence, "transfer")
        pinned = [made.pin_memory for made in evidence.torch.loaders if made.role == "training"]
        share = seconds / evidence.times.real
        if share < LEAST_SHARE or (not all(pinned) and part.calls <= OF_A_BATCH):
            return None
        many = f"{part.calls:.0f} copies" if part.calls >= 1.5 else "copies"
        return Cause(
            title=f"{percent(share)} of every step goes into copies to the GPU",
            text=f"Each step of {ms(evidence.times.real)} spends {ms(seconds)} in {many} between "
            f"CPU and GPU{f', most at {at(part.where)}' if part.where else ''}.",
            saves=Saving("no time spent on copies", seconds),
            where=(part.where,) if part.where else (),
            advice="Build tensors with `device=`; move what never changes once, before the loop.",
            snippet="mask = torch.ones(length, length, device=device).tril()",
            rewritable=bool(pinned) and all(pinned) and part.where is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Copy batches out of pinned memory without a wait."""
        for site in finding.where:
            call = script.call(site)
            # To the CPU the copy would be read before it has ended, which no loss need show.
            if called(call) not in ("to", "cuda") or "cpu" in ast.unparse(call).lower():
                raise CannotRewrite("it is not seen to copy to the GPU")
            script.set_keyword(site, "non_blocking", "True")
