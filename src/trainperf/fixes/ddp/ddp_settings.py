"""Settings of `DistributedDataParallel` under which less of the exchange is left, or it hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.ranks._exchange import (
    AT_MOST_ALL,
    WORTH_CHANGING,
    exchange,
    exchange_said,
    hidden_seconds,
    sent_seconds,
    stands_out,
)
from trainperf.fixes.rows import Callee, SetArgument
from trainperf.fixes.torch_step._source import model_target, refuse_if_named
from trainperf.model import Ddp, Equivalence, Evidence, Finding
from trainperf.rewrite import Script

SWITCHES = {"find_unused_parameters": 8, "gradient_as_bucket_view": 10, "static_graph": 11}

DDP = Callee(
    "DistributedDataParallel",
    defaults=dict.fromkeys(SWITCHES, False),
    positions=SWITCHES,
)
"""What its call leaves out, and the places of arguments (PyTorch 1.13 to 2.13)."""


class TorchDdpBucketView(Fix):
    """Let gradients live in DDP's buckets: `gradient_as_bucket_view=True`.

    Why slow: DDP copies each gradient into a bucket before its all-reduce, and copies the result
    back into `.grad` afterwards: all are read and written twice more, and kept in memory twice.
    Changes: `.grad` becomes a view into the bucket, so nothing is copied. The numbers are the
    same.
    When not:
    - Code that calls `detach_()` on gradients, or puts other tensors in their place.
    - Where the first steps must not differ in memory: the views are made after one.
    """

    try_before = ("torch_ddp_no_sync",)
    edit = SetArgument("gradient_as_bucket_view", "True", DDP)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find models that copy."""
        return _cause(
            evidence,
            _with(evidence, "gradient_as_bucket_view", False),
            Saving(
                "copies take no longer than the all-reduces alone, or the whole exchange",
                lambda: sent_seconds(evidence),
            ),
            title="DDP copies all gradients into its buckets and back",
            text=f"{exchange_said(evidence)}, copied into buckets and back into `.grad`.",
            snippet="model = DistributedDataParallel(model, gradient_as_bucket_view=True)",
        )


class TorchDdpStaticGraph(Fix):
    """Tell DDP that the graph stays the same: `static_graph=True`.

    Why slow: With `find_unused_parameters=True`, DDP walks over the whole autograd graph before
    each backward, and exchanges a map of what was used: here the same every time.
    Changes: DDP looks once, in the first step, and keeps what it found. The numbers are the same.
    When not:
    - When which parameters are used depends on the data, the step or random choices: layers that
      are dropped, experts that are chosen, losses that come in later.
    - With `no_sync()` in the first step.
    """

    edit = SetArgument("static_graph", "True", DDP)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find models that search a graph of which PyTorch itself says it is static."""
        models = tuple(
            model
            for model in _with(evidence, "find_unused_parameters", True)
            if model.settings.get("static_graph") is False
            and model.graph_is_static is True
            and model.unused != 0
        )
        unused = sum(model.unused or 0 for model in models)
        which = f", {unused} of them unused" if unused else ""
        return _cause(
            evidence,
            models,
            title="DDP searches a graph that never changes in each step",
            text="`find_unused_parameters=True` makes DDP walk over the graph before each "
            f"backward; in this run it used the same parameters every time{which}. "
            f"{exchange_said(evidence)}, with the search in it.",
            snippet="model = DistributedDataParallel(model, static_graph=True)",
        )


class TorchDdpUnusedParameters(Fix):
    """Let DDP stop searching for unused parameters that do not exist.

    Why slow: With `find_unused_parameters=True`, DDP walks over the whole autograd graph before
    each backward to find parameters that get no gradient. In this model there are none.
    Changes: The setting is off, as by default. The numbers are the same.
    When not: When some steps leave parameters out: branches taken by chance or by the data, heads
    of tasks that come later. DDP then stops with an error that says so.
    """

    edit = SetArgument("find_unused_parameters", "False", DDP)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find models that search, and whose parameters all got a gradient."""
        models = tuple(
            model
            for model in _with(evidence, "find_unused_parameters", True)
            if model.unused == 0 and model.graph_is_static is not False
        )
        return _cause(
            evidence,
            models,
            title="DDP searches for unused parameters, and there are none",
            text="`find_unused_parameters=True` makes DDP walk over the graph before each "
            f"backward; all parameters got a gradient. {exchange_said(evidence)}, with the "
            "search in it.",
            snippet="model = DistributedDataParallel(model, find_unused_parameters=False)",
        )


HOOKS = "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks"

HOOK_OF = {
    "nccl": ("bf16_compress_hook", "bfloat16"),
    "gloo": ("fp16_compress_hook", "float16"),
}
"""PyTorch refuses the bfloat16 hook on any backend but NCCL and XCCL (tried with 2.13)."""


class TorchDdpCompress(Fix):
    """Exchange gradients in 16 bits: a compression hook of DDP.

    Why slow: Gradients in float32 take four bytes per weight, and each step sends all of them over
    the network, the bus or the loopback.
    Changes: DDP rounds each bucket to 16 bits before its all-reduce and widens the result. About 3
    decimal digits of a gradient are left in bfloat16 (NCCL), 4 in float16 (gloo), whose numbers
    end at 65,504. Weights and updates stay float32.
    When not:
    - Training that is sensitive to small gradients: compare the loss over an epoch.
    - float16 with gradients above 65,504, for example of a scaled loss: they overflow.
    - Where the processor, not the link, is what the exchange waits for.
    """

    equivalence = Equivalence.NUMERICS
    try_before = ("torch_ddp_no_sync",)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find gradients in float32 where no model has a hook and one would halve them."""
        models = evidence.parallel.ddp
        hook, kind = HOOK_OF.get(exchange(evidence).backend.lower(), ("", ""))
        wide = evidence.torch.model.dtypes == ("float32",)
        if not hook or not wide or any(model.comm_hook for model in models):
            return None
        return _cause(
            evidence,
            models,
            Saving(
                "half of the exchange, or of the all-reduces alone: half of the bytes",
                lambda: sent_seconds(evidence) / 2,
            ),
            least=WORTH_CHANGING,
            title="Gradients are exchanged in float32",
            text=f"{exchange_said(evidence)}, in float32: in {kind} it would be half the bytes.",
            advice=f"Register PyTorch's {hook}, and compare the losses.",
            snippet=f"{HOOKS}\n\nmodel.register_comm_hook(None, default_hooks.{hook})",
            data={"hook": hook},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Register the hook right after each model is wrapped."""
        for site in finding.where:
            DDP.check(script, site)
            refuse_if_named(script, site.file, "register_comm_hook")
            name = model_target(script, site)
            hooks = script.free_name(site.file, "default_hooks")
            renamed = "" if hooks == "default_hooks" else f" as {hooks}"
            hook = f"{hooks}.{finding.data['hook']}"
            script.insert_after(site, f"{name}.register_comm_hook(None, {hook})")
            script.insert_after_imports(site.file, HOOKS + renamed)


def _with(evidence: Evidence, setting: str, value: bool) -> tuple[Ddp, ...]:
    """The models with this effective value of a setting."""
    return tuple(model for model in evidence.parallel.ddp if model.settings.get(setting) is value)


def _cause(
    evidence: Evidence,
    models: Sequence[Ddp],
    saves: Saving | None = None,
    *,
    least: float = 0.0,
    data: dict[str, Any] | None = None,
    **told: Any,
) -> Cause | None:
    """The cause of a setting of these models: it is told from such a share of a step on.

    Their call is edited where the run had the setting from. It saves what the backward can hide,
    unless said otherwise.
    """
    if not models:
        return None
    places = [model.where for model in models]
    settings = [model.settings for model in models]
    alike = {
        name: value
        for name, value in settings[0].items()
        if name in DDP.positions and all(other.get(name) == value for other in settings)
    }
    return Cause(
        saves=saves or Saving(AT_MOST_ALL, lambda: hidden_seconds(evidence)),
        where=tuple(dict.fromkeys(place for place in places if place is not None)),
        sure=stands_out(evidence, least),
        rewritable=all(place is not None and place.exact for place in places),
        data={**seen_in_call(evidence, **alike), **(data or {})},
        **told,
    )
