"""Work in every step that only looks at the training: logs, prints, sums of losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.trainers import setting_of
from trainperf.fixes.common.words import (
    Edit,
    at,
    make_those_that_can_be,
    ms,
    percent,
    refusal,
    worth_counted,
)
from trainperf.fixes.torch_step._changes import kept_on_device, log_seldom
from trainperf.fixes.torch_step._lookers import (
    DETACH,
    EACH_STEP,
    SELDOM,
    Work,
    called_logs,
    gap_seconds,
    lookers,
    own_seconds,
    unsent,
)
from trainperf.model import Equivalence, Evidence, Finding, Site, is_taken
from trainperf.rewrite import Script

EVERY = 50
"""Steps between two that are still logged: PyTorch's tuning guide only says "not each"."""

HEAVY = 0.02
"""Share of a step below which one place is not named."""

MOST_NAMED = 3


class TorchStepLogging(Fix):
    """Log every 50 steps, not in each; keep sums of losses on the device.

    Why slow: Python formats and writes while the model waits. Each `.item()`, `.cpu()` or `print`
    of a tensor waits for the GPU, which then has nothing to do until Python starts the next
    kernels.
    Changes: The statement that logs stands under `if step % 50 == 0:`; training computes the same,
    the log has fewer lines. `total += loss.item()` becomes `total += loss.detach().float()`: the
    sum stays on the device and is read where it is used, with the rounding of float32. Counts of
    hits likewise.
    When not:
    - A log that steers the training (early stopping, schedules) or keeps averages: no edit is
      written for it.
    - Where every step must be on record.
    """

    category = "sync"
    usual = 1.2
    equivalence = Equivalence.SEMANTICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find what reads numbers or logs in each step, or a library's loop that does so."""
        found = sorted(lookers(evidence), key=lambda work: -work.seconds)
        saved = gaps = 0.0
        bound = 1.0
        if found:
            saved = own_seconds(evidence, found)
            gaps = gap_seconds(evidence) if any(work.reads >= EACH_STEP for work in found) else 0.0
            bound = max(_bound(evidence, saved), bound_if_saved(evidence, gaps))
        setting = setting_of(self.id, {}, evidence)
        trainer = evidence.torch.trainer
        if setting is not None and trainer is not None and not worth_counted(bound):
            now = trainer.settings[setting.name]
            return Cause(
                title="The loop of a library logs in every few steps",
                text=f"`{setting.name}` of its `{trainer.cls}` is "
                f"{'left to its default' if now is None else now}.",
                saves=Saving("what it takes was not timed", of="all"),
                rewritable=False,
            )
        if not found:
            return None
        least = HEAVY * evidence.times.real
        named = [work for work in found if work.seconds >= least or work.reads >= EACH_STEP]
        named = [work for work in named if gaps > 0 or work.seconds >= least] or found[:1]
        calls = evidence.torch.calls
        loop = evidence.loop.where
        if loop is None and calls is not None:
            loop = calls.step or calls.backward
        places = tuple(work.where for work in named) + ((loop,) if loop is not None else ())
        edits = [work.edit for work in named]
        return Cause(
            title=_title(evidence, named[0], gaps > saved),
            text=_text(evidence, named, gaps),
            saves=Saving(
                "no time left in which the GPU runs no kernel"
                if gaps > saved
                else "no time left for this in a step",
                ratio=bound,
            ),
            where=places,
            advice=_advice(named[0]),
            snippet=_snippet(named[0]),
            equivalence=Equivalence.NUMERICS if set(edits) == {DETACH} else None,
            rewritable=loop is not None and all(site.exact for site in places),
            data={"edits": edits, "loop": len(edits)},
        )

    def as_written(self, script: Script, finding: Finding) -> Finding:
        """Say so where what only looks on cannot be told from what the training needs."""
        edits = finding.data.get("edits", [])
        loop = finding.where[finding.data["loop"]] if edits else None
        for site, edit in zip(finding.where, edits, strict=False):
            if edit != SELDOM or loop is None:
                continue
            if refusal(script, partial(log_seldom, site=site, anchor=loop, every=EVERY)):
                advice = f"Where it only looks on, do it every {EVERY} steps; what it changes, the "
                return replace(
                    finding,
                    advice=f"{advice}training needs in each, without `.item()`.",
                    snippet="",
                )
        return finding

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put what logs under an `if`, and leave sums of losses on the device.

        What can be edited is, unless nothing can.
        """
        places = list(finding.where)
        loop = places.pop(finding.data["loop"])
        edits = finding.data["edits"]
        every = EVERY if SELDOM in edits else None
        make: dict[str, Callable[[Site], Edit]] = {
            DETACH: lambda site: partial(kept_on_device, site=site, every=every),
            SELDOM: lambda site: partial(log_seldom, site=site, anchor=loop, every=EVERY),
        }
        make_those_that_can_be(
            script, (make[edit](site) for site, edit in zip(places, edits, strict=True))
        )


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


def _text(evidence: Evidence, works: list[Work], gaps: float) -> str:
    named = []
    for work in works[:MOST_NAMED]:
        does = [f"takes {ms(work.seconds)}"] if work.seconds >= 1e-6 else []
        if work.reads >= EACH_STEP:
            does.append(f"reads {work.reads:,.0f} tensors" if work.reads >= 2 else "reads a number")
        place = f"`{work.name}` ({at(work.where)})" if work.name else at(work.where)
        named.append(f"{place} {' and '.join(does)}".rstrip())
    text = f"In each step of {ms(evidence.times.real)}, {', '.join(named)}."
    if evidence.device.kind == "GPU" and gaps > 0:
        text += f" The GPU runs nothing for {ms(gaps)} of a step: after each read it waits for "
        text += "Python to start the next kernel."
    elif evidence.device.kind == "GPU":
        text += " Some of that may be waiting for the GPU to end the step."
    least = HEAVY * evidence.times.real
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
