"""An optimizer that updates its tensors in many kernels where one could do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import GPU, SITE, probe
from trainperf.fixes.common.seen import seen_in_call
from trainperf.fixes.common.step import PROBE_LEAST, bound_if_saved
from trainperf.fixes.common.torch_cases import OPTIMIZER, split, torch_evidence
from trainperf.fixes.common.words import ms, times, worth
from trainperf.fixes.torch_step._step import PROBED, part_seconds, taken_probe, to_try
from trainperf.model import Equivalence, Evidence, Finding, Missing, Probe, TorchOptimizer
from trainperf.rewrite.arguments import RecordedCall, set_argument
from trainperf.rewrite.wanted import Wanted

if TYPE_CHECKING:
    from trainperf.rewrite import Script

DEAR = split(forward=0.030, backward=0.040, optimizer=0.027, rest=0.002)
NOT_SPLIT = Missing("not split")

DEFAULTS: dict[str, object] = {"fused": None, "foreach": None}
"""Arguments whose default leaves the choice to PyTorch."""

PART = "at most the whole of the optimizer's part of the step"
UPDATE = f"the optimizer's update, {PROBED}"


def _with_two() -> Evidence:
    case = torch_evidence(split=DEAR)
    other = replace(OPTIMIZER, cls="SGD", where=SITE, tensors=4, parameters=10)
    return replace(case, torch_=replace(case.torch, optimizers=(OPTIMIZER, other)))


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

    silent = [
        # the optimizer is a small part of the step
        torch_evidence(split=split(forward=0.050, backward=0.046, optimizer=0.002)),
        # fused already
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, fused=True)),
        # it cannot be fused here
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, can_fuse=False)),
        # one of the user's own
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, builtin=False)),
        torch_evidence(split=DEAR, optimizer=None),
        # the fused update was no faster, or not surely so
        torch_evidence(split=DEAR, probes={"fused": probe(0.9)}),
        torch_evidence(split=DEAR, probes={"fused": probe(1.2, spread=0.2)}),
        # input-bound
        torch_evidence(split=DEAR, resident=0.020, input=0.098),
        # nothing was timed
        torch_evidence(split=NOT_SPLIT),
    ]
    fires = [
        torch_evidence(split=DEAR),
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, fused=False), device=GPU),
        torch_evidence(split=DEAR, probes={"fused": probe(2.04)}),
        # the probe alone
        torch_evidence(split=NOT_SPLIT, probes={"fused": probe(3.0)}),
        # a loop without a DataLoader
        torch_evidence(split=DEAR, loader=None, resident=None, input=None),
        # built where no edit can reach
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, where=None)),
        # two optimizers in one step
        _with_two(),
    ]
    tries_not = [
        # fused already, or it cannot be
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, fused=True)),
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, can_fuse=False)),
        torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, builtin=False)),
        torch_evidence(split=DEAR, optimizer=None),
        # built where no edit can reach
        torch_evidence(split=NOT_SPLIT, optimizer=replace(OPTIMIZER, where=None)),
        # nothing the step does matters
        torch_evidence(split=DEAR, resident=0.002, input=0.099),
    ]
    tries = [
        torch_evidence(split=NOT_SPLIT),
        torch_evidence(split=NOT_SPLIT, real=None, resident=None, input=None),
        torch_evidence(split=split(forward=0.050, backward=0.046, optimizer=0.002)),
        torch_evidence(split=DEAR, probes={"fused": probe(0.9)}),
        torch_evidence(split=DEAR, probes={"fused": probe(1.2, spread=0.2)}),
    ]
    examples = [
        Example(
            before="import torch\n\noptimizer = ▸torch.optim.AdamW(model.parameters(), lr=3e-4)◂\n",
            after="import torch\n\n"
            "optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)\n",
        ),
        Example(
            before="optimizer = ▸Adam(groups, foreach=True, lr=rate)◂\n",
            after="optimizer = Adam(groups, fused=True, lr=rate)\n",
        ),
        Example(
            before="optimizer = ▸SGD(\n    weights,\n    lr=0.1,\n    fused=False,\n)◂\n",
            after="optimizer = SGD(\n    weights,\n    lr=0.1,\n    fused=True,\n)\n",
        ),
        Example(  # two optimizers
            before="one, two = ▸Adam(a)◂, ▸Adam(b)◂\n",
            after="one, two = Adam(a, fused=True), Adam(b, fused=True)\n",
        ),
        Example(  # among what cannot be seen
            before="optimizer = ▸AdamW(groups, lr=rate, **extra)◂\n",
            after='optimizer = AdamW(groups, lr=rate, **{**extra, "fused": True})\n',
        ),
        Example(  # by a choice of which both become the same
            before="extra = dict(fused=True) if cuda else dict()\n"
            "optimizer = ▸AdamW(groups, lr=rate, **extra)◂\n",
            after="extra = dict(fused=True)\noptimizer = AdamW(groups, lr=rate, **extra)\n",
            data={"arguments": {"fused": None, "foreach": None}},
        ),
        Example(  # by a class of settings
            before="class Config:\n    fused = False\n\n\n"
            "optimizer = ▸AdamW(groups, lr=Config.lr, fused=Config.fused)◂\n",
            after="class Config:\n    fused = True\n\n\n"
            "optimizer = AdamW(groups, lr=Config.lr, fused=Config.fused)\n",
            data={"arguments": {"fused": False, "foreach": None}},
        ),
        Example.untouched("optimizer = ▸AdamW(groups, **one, **two)◂\n"),
    ]

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
