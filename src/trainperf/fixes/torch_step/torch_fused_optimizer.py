"""An optimizer that updates its tensors in many kernels where one could do."""

from __future__ import annotations

from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import PROBE_LEAST, bound_if_saved
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import ms, times, worth
from trainperf.fixes.torch_step._step import PROBED, part_seconds, taken_probe, to_try
from trainperf.model import Equivalence, Evidence, Finding, Probe, TorchOptimizer
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import RecordedCall, Wanted, set_argument

DEFAULTS: dict[str, object] = {"fused": None, "foreach": None}
"""Arguments whose default leaves the choice to PyTorch."""

PART = "at most the whole of the optimizer's part of the step"
UPDATE = f"the optimizer's update, {PROBED}"


class FusedOptimizer(Fix):
    """Update all weights in one fused kernel: `fused=True`.

    ## Why it is slow
    On a CPU an optimizer of `torch.optim` walks over the weights tensor by tensor, with a
    kernel for each operation of its formula. On a GPU it takes tensors together
    (`foreach`), still with one kernel per operation. Each kernel reads and writes the
    weights and their moments once more.

    ## What changes
    `fused=True` makes the whole update in one pass over each weight. The formula is the
    same; rounding differs in the last digits. `foreach=…` goes, because it excludes
    `fused`.

    ## When not to
    - When gradients must flow through the update itself (`differentiable=True`).
    - Adam, AdamW, SGD and Adagrad have it; a few of their options and devices do not.
    """

    category = "model"
    usual = 1.15
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find optimizers that could be fused and whose updates take a share of the step."""
        measured = taken_probe(evidence, "fused")
        if not _unfused(evidence) or (measured is not None and measured.low < PROBE_LEAST):
            return None
        part = _part(evidence, measured)
        saved = part * (1 - 1 / measured.ratio) if measured else part
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        return self._finding(evidence, part, measured, bound, PART if measured is None else UPDATE)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try all optimizers that could be fused."""
        if not _unfused(evidence):
            return None
        measured = taken_probe(evidence, "fused")
        bound, basis = to_try(evidence, "fused")
        part = None
        try:
            part = _part(evidence, measured)
        except NotMeasured:
            pass
        if part is not None and (bound is None or bound > 1):
            limited = bound is not None and measured is not None
            saved = part * (1 - 1 / measured.high) if measured and limited else part
            bound = bound_if_saved(evidence, saved)
            basis = UPDATE if limited else PART
        return self._finding(evidence, part, measured, bound, basis)

    def _finding(
        self,
        evidence: Evidence,
        part: float | None,
        measured: Probe | None,
        bound: float | None,
        basis: str,
    ) -> Finding:
        slow = _unfused(evidence)
        dearest = max(slow, key=lambda one: one.parameters)
        where = tuple(one.where for one in slow if one.where is not None)
        return self.finding(
            title=f"{dearest.cls} is not fused",
            text=_text(evidence, dearest, part, measured),
            bound=bound,
            bound_basis=basis,
            where=where,
            advice="Give the optimizer fused=True.",
            snippet=f"optimizer = torch.optim.{dearest.cls}(model.parameters(), ..., fused=True)",
            data=_seen(evidence, slow),
            rewritable=len(where) == len(slow) and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in each constructor; take out `foreach`, which excludes it."""
        for site in finding.where:
            fused = RecordedCall.of(finding.data, "fused", DEFAULTS)
            set_argument(script, site, Wanted("fused", "True"), fused)
            if "foreach" in script.call_keywords(site):
                script.remove_keyword(site, "foreach")
            elif fused.arguments.get("foreach"):
                set_argument(script, site, Wanted("foreach", "False"), fused)


def _seen(evidence: Evidence, slow: list[TorchOptimizer]) -> dict[str, Any]:
    """Return the arguments of these optimizers, for the edit: those that all were given alike."""
    given = [{"fused": one.fused, "foreach": one.foreach} for one in slow]
    same = {name: value for name, value in given[0].items() if all(e[name] == value for e in given)}
    return seen_in_call(evidence, **same)


def _unfused(evidence: Evidence) -> list[TorchOptimizer]:
    """The optimizers that are not fused and could be."""
    return [
        one
        for one in evidence.torch.optimizers
        if one.can_fuse and one.builtin and one.fused is not True
    ]


def _part(evidence: Evidence, measured: Probe | None) -> float:
    """Seconds of a step in the optimizer, by the split, else by the probe."""
    try:
        return part_seconds(evidence, "optimizer")
    except NotMeasured:
        if measured is None:
            raise
        return min(measured.base_s, evidence.times.real)


def _text(
    evidence: Evidence, optimizer: TorchOptimizer, part: float | None, measured: Probe | None
) -> str:
    grouped = evidence.device.kind == "GPU" and optimizer.foreach is not False
    how = "a kernel per operation" if grouped else "one after the other"
    text = f"{optimizer.cls} updates {optimizer.tensors} tensors, {how}."
    if part is not None:
        step = ms(evidence.times.real)
        text = f"Updating the weights takes {ms(part)} of the {step} step: {text}"
    if measured is not None:
        text += (
            f" With fused=True the same update ran {times(measured.ratio)} as fast "
            f"({ms(measured.base_s)} → {ms(measured.candidate_s)})."
        )
    return text
