"""Work in every step that only looks at the training: logs, prints, sums of losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common import trainers
from trainperf.fixes.common.cases import GPU
from trainperf.fixes.common.many import Edit, make_those_that_can_be, refusal
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.torch_cases import split, torch_evidence, traced
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.torch_step._changes import log_seldom
from trainperf.fixes.torch_step._logging_examples import EXAMPLES
from trainperf.fixes.torch_step._lookers import (
    DETACH,
    EACH_STEP,
    SELDOM,
    SINK,
    Work,
    called_logs,
    gap_seconds,
    lookers,
    own_seconds,
    places_of,
    step_site,
)
from trainperf.fixes.torch_step._sinking import sink
from trainperf.fixes.torch_step._sums import kept_on_device
from trainperf.fixes.torch_step._words import unsent
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    FunctionCost,
    LogCall,
    Loop,
    Missing,
    OwnWork,
    Site,
    SyncPoint,
    Trainer,
    is_taken,
)

if TYPE_CHECKING:
    from trainperf.rewrite import Script

EVERY = 50
"""Steps between two that are still logged: PyTorch's tuning guide only says "not each"."""

HEAVY = 0.02
"""Share of a step below which one place is not named."""

BATCH_SITE = Site("train.py", 40, "get_batch", col=12, end_line=40, end_col=25)
LOG_SYNC = SyncPoint(
    "item", Site("train.py", 30, "log", col=12, end_line=30, end_col=25), 53, 0.004
)
SUM_SYNC = SyncPoint("item", Site("train.py", 24, "main", col=17, end_line=24, end_col=28), 1, 0.0)
EVALUATES = OwnWork("evaluation", Site("train.py", 31, "log"), 0.5, 200)
LOG = FunctionCost("log", "train.py", 31, 0.5, "main", 200, calls_into="")
HISTOGRAMS = LogCall(
    "wandb.Run.log", Site("train.py", 33, "main", col=12, end_line=35, end_col=13), 1, 0.03, 20
)
LOGGED = Trainer(
    "transformers", "TrainingArguments", made="command", source="--", settings={"logging_steps": 1}
)
PARTS = split(forward=0.015, backward=0.025, optimizer=0.005, rest=0.052)


class SeldomLogging(Fix):
    """Log every 50 steps, not in each; keep sums of losses on the device.

    ## Why it is slow
    Python formats and writes while the model waits. Each `.item()`, `.cpu()` or
    `print` of a tensor waits until the GPU has computed it; the GPU then has nothing
    to do until Python has started the next kernels.

    ## What changes
    The statement that logs stands under `if step % 50 == 0:`; training computes the
    same, the log has fewer lines. `total += loss.item()` becomes
    `total += loss.detach().float()`: the sum stays on the device and is read where it
    is used, with the rounding of float32. Counts of hits, and lists of losses, likewise.
    What is computed in each step and looked at under an `if` goes there: the log stays as it is.

    ## When not to
    - A log that steers the training (early stopping, schedules) or keeps averages: no
      edit is written for it.
    - Where every step must be on record.
    """

    category = "sync"
    usual = 1.2
    equivalence = Equivalence.SEMANTICS
    framework = "torch"

    silent = [
        # nothing is read, nothing logged
        torch_evidence(split=PARTS),
        # a number of a CPU's tensor costs nothing
        torch_evidence(torch={"syncs": (SUM_SYNC,)}),
        torch_evidence(functions=(replace(LOG, share=0.02),), torch={"syncs": (LOG_SYNC,)}),
        # it decides by the number
        torch_evidence(
            split=PARTS, functions=(LOG,), torch={"syncs": (replace(LOG_SYNC, what="bool"),)}
        ),
        # the user's own function, which may do anything
        torch_evidence(split=PARTS, functions=(LOG,)),
        # it makes the batch
        torch_evidence(
            split=PARTS,
            functions=(replace(LOG, name="get_batch"),),
            torch={"syncs": (replace(LOG_SYNC, where=BATCH_SITE),)},
        ),
        # an object that is called for each sample
        torch_evidence(
            split=PARTS,
            torch={"syncs": (replace(LOG_SYNC, where=replace(BATCH_SITE, function="__call__")),)},
        ),
        # in a worker thread
        torch_evidence(functions=(replace(LOG, thread="worker", calls_into="dumps"),)),
        # it evaluates the model, and reads what that gave
        torch_evidence(split=PARTS, torch={"syncs": (LOG_SYNC,)}, own_work=(EVALUATES,)),
        # the function that trains
        torch_evidence(functions=(replace(LOG, name="main", calls_into="add_scalar"),)),
        # the GPU is busy, and so it is with the loss printed seldom
        torch_evidence(device=GPU, torch={"trace": traced(0.98), "syncs": (SUM_SYNC,)}),
        torch_evidence(
            device=GPU, torch={"trace": traced(0.50), "syncs": (replace(SUM_SYNC, calls=0.02),)}
        ),
        # input-bound: the loop cannot be faster than its input
        torch_evidence(input=0.099, split=PARTS, functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
        torch_evidence(real=None, functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
        # it takes next to nothing, or comes seldom
        torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, seconds=0.0004),)}),
        torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, calls=0.02),)}),
        # what a library's own loop calls, and a bar that counts the steps
        torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, where=None),)}),
        torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, what="tqdm.update"),)}),
    ]
    fires = [
        torch_evidence(split=PARTS, functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
        # a tracker's call in the loop, with a number that is read for it; in a function
        torch_evidence(
            split=PARTS,
            torch={
                "logs": (HISTOGRAMS,),
                "syncs": (replace(SUM_SYNC, where=replace(SUM_SYNC.where, line=34)),),
            },
        ),
        torch_evidence(
            split=PARTS,
            torch={"logs": (replace(HISTOGRAMS, where=replace(LOG_SYNC.where, line=31)),)},
        ),
        # the parts were not timed
        torch_evidence(split=Missing("not"), functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
        # a method of a class; what was found on the stacks only
        torch_evidence(
            split=PARTS, functions=(replace(LOG, name="Log.write", calls_into="dumps"),)
        ),
        # waiting for a GPU
        torch_evidence(device=GPU, torch={"trace": traced(0.60), "syncs": (SUM_SYNC,)}),
        torch_evidence(
            device=GPU,
            split=PARTS,
            torch={
                "trace": traced(0.60),
                "syncs": (replace(SUM_SYNC, printed=True, seconds=0.001),),
            },
        ),
        # a loop without a DataLoader, in no known place
        torch_evidence(
            loader=None,
            resident=None,
            input=None,
            calls=None,
            loop=Loop("update"),
            split=PARTS,
            functions=(LOG,),
            torch={"syncs": (LOG_SYNC,)},
        ),
        # several at once
        torch_evidence(
            device=GPU,
            split=PARTS,
            functions=(LOG,),
            torch={"trace": traced(0.40), "syncs": (LOG_SYNC, SUM_SYNC)},
        ),
    ]
    tries_not = [
        torch_evidence(),
        # it logs seldom already
        torch_evidence(torch={"trainer": replace(LOGGED, settings={"logging_steps": 100})}),
        torch_evidence(torch={"trainer": replace(LOGGED, settings={})}),
    ]
    tries = [torch_evidence(torch={"trainer": LOGGED})]
    examples = EXAMPLES

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find what reads numbers or logs in each step, and what of the step it takes."""
        found = sorted(lookers(evidence), key=lambda work: -work.seconds)
        if not found:
            return None
        saved = own_seconds(evidence, found)
        gaps = gap_seconds(evidence) if any(work.reads >= EACH_STEP for work in found) else 0.0
        bound = max(_bound(evidence, saved), bound_if_saved(evidence, gaps))
        if not worth(evidence, bound):
            return None
        least = HEAVY * evidence.times.real
        named = [work for work in found if work.seconds >= least or work.reads >= EACH_STEP]
        named = [work for work in named if gaps > 0 or work.seconds >= least] or found[:1]
        loop = evidence.loop.where or step_site(evidence)
        edits = [work.edit for work in named]
        exact = loop is not None and all(site.exact for site in (loop, *places_of(named)))
        waits = gaps > saved
        return self.finding(
            title=_title(evidence, named[0], waits),
            text=_text(evidence, named, gaps, saved),
            bound=bound,
            bound_basis="no time left in which the GPU runs no kernel"
            if waits
            else "no time left for this in a step",
            where=places_of(named) + ((loop,) if loop is not None else ()),
            advice=_advice(named[0]),
            snippet=_snippet(named[0]),
            equivalence=Equivalence.NUMERICS if set(edits) == {DETACH} else None,
            rewritable=exact,
            data={"edits": edits, "loop": len(edits)},
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try the setting by which a library's loop logs, whatever that takes."""
        found = super().possible(evidence)
        setting = trainers.setting_of(self.id, {}, evidence)
        if found is not None or setting is None:
            return found
        trainer = evidence.torch.trainer
        assert trainer is not None
        now = trainer.settings[setting.name]
        return self.finding(
            title="The loop of a library logs in every few steps",
            text=f"`{setting.name}` of its `{trainer.cls}` is "
            f"{'left to its default' if now is None else now}.",
            bound=None,
            bound_basis="what it takes was not timed",
            rewritable=False,
        )

    def as_written(self, script: Script, finding: Finding) -> Finding:
        """Move what only some steps look at to where it is looked at: training and log stay."""
        edits = finding.data.get("edits", [])
        loop = finding.where[finding.data["loop"]] if edits else None
        seen = [
            SINK if edit == SELDOM and loop is not None and _sinks(script, site, loop) else edit
            for site, edit in zip(finding.where, edits, strict=False)
        ]
        if SELDOM in seen or SINK not in seen:
            return finding
        return replace(
            finding,
            equivalence=Equivalence.NUMERICS if DETACH in seen else Equivalence.EXACT,
            advice="Compute it in the steps that look at it.",
            data={**finding.data, "edits": seen},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put what logs under an `if`, and leave sums of losses on the device.

        What can be edited is, unless nothing can.
        """
        places = list(finding.where)
        loop = places.pop(finding.data["loop"])
        edits = finding.data["edits"]
        every = EVERY if SELDOM in edits else None
        make: dict[str, Callable[[Site], Edit]] = {
            SINK: lambda site: partial(sink, site=site, anchor=loop),
            DETACH: lambda site: partial(kept_on_device, site=site, every=every),
            SELDOM: lambda site: partial(log_seldom, site=site, anchor=loop, every=EVERY),
        }
        make_those_that_can_be(
            script, (make[edit](site) for site, edit in zip(places, edits, strict=True))
        )


def _sinks(script: Script, site: Site, loop: Site) -> bool:
    return refusal(script, partial(sink, site=site, anchor=loop)) is None


def _bound(evidence: Evidence, seconds: float) -> float:
    """Upper bound of the speed-up if the real step took `seconds` less, its input no less."""
    bound = evidence.bound_if_step_saves(seconds)
    if is_taken(evidence.times.input_):
        bound = min(bound, evidence.times.real / max(evidence.times.input, 1e-9))
    return max(1.0, bound)


def _title(evidence: Evidence, work: Work, waits: bool) -> str:
    if work.name and not waits:
        share = percent(min(1.0, work.seconds / evidence.times.real))
        return f"`{work.name}` ({at(work.where)}) takes {share} of every step"
    return f"Every step waits at {at(work.where)} to read a number"


def _text(evidence: Evidence, works: list[Work], gaps: float, saved: float) -> str:
    named = []
    least = HEAVY * evidence.times.real
    for work in works[:3]:
        name = f"`{work.name}` ({at(work.where)})" if work.name else at(work.where)
        took = f" takes {ms(work.seconds)}" if work.seconds >= 1e-6 else ""
        reads = f" reads {work.reads:,.0f} tensors" if work.reads >= 2 else ""
        if not reads and work.reads >= EACH_STEP:
            reads = " reads a number"
        named.append(f"{name}{took}{' and' if took and reads else ''}{reads}")
    text = f"In each step of {ms(evidence.times.real)}, {', '.join(named)}."
    if evidence.device.kind == "GPU" and gaps > 0:
        text += (
            f" The GPU runs nothing for {ms(gaps)} of a step: after each read it waits until "
            "Python has started the next kernel."
        )
    elif evidence.device.kind == "GPU":
        text += " Some of that may be waiting for the GPU to end the step."
    sending = unsent(log for log in called_logs(evidence) if log.seconds >= least)
    return f"{text} {sending}".rstrip()


def _advice(work: Work) -> str:
    if work.edit == DETACH:
        return "Add up `loss.detach()`, and call `.item()` once, after the loop."
    name = f"`{work.name}`" if work.name else "what shows the number"
    return f"Call {name} every {EVERY} steps."


def _snippet(work: Work) -> str:
    if work.edit == DETACH:
        return "total_loss += loss.detach()"
    name = work.name.rpartition(".")[2]
    called = f"{name}(...)" if name.isidentifier() else "print(loss.item())"
    return f"if step % {EVERY} == 0:\n    {called}"
