"""Python work for every sample, in `__getitem__`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import REAL_SHARE, pipeline_seconds
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.dataloader._loader import (
    COLLATE,
    ITEM,
    named,
    stage_seconds,
    takes_nothing,
    waits_at_most,
)
from trainperf.fixes.dataloader.edits.keeping import edited_place, keep_items, keepable, kept_said
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding, FunctionCost, Loader, Site, Torch

if TYPE_CHECKING:
    from trainperf.rewrite import Script

MOST_NAMED = 3

FOR_ITEMS = """\
# once, before training: what is the same in every epoch
prepared = [prepare(sample) for sample in samples]
torch.save(prepared, "prepared.pt")

# then __getitem__ only fetches, and draws what is random
def __getitem__(self, index):
    return augment(self.prepared[index])"""

KEPT = """\
@made_once  # keeps what it returned for an index
def prepared(self, index):
    return resize(decode(self.files[index]))

def __getitem__(self, index):
    return augment(self.prepared(index))"""

ITEMS_ADVICE = "Prepare once what is the same in every epoch; do the rest for whole batches."
KEEP_ADVICE = "Make what is the same in every epoch once, and keep it."


class ItemWork(Fix):
    """Do less for each sample while training.

    ## Why it is slow
    `__getitem__` runs for every sample of every epoch. Tokenising, decoding, resizing and loops
    in Python that could be done once, or for a whole batch in one array operation, are paid
    for each time.

    ## What changes
    What is the same in every epoch is made once, in the first, and kept: in memory, or
    where there are workers in temporary files that they share. Items that come out the same
    when made again are kept whole (a library's dataset is put into one that keeps them); of
    others, what `__getitem__` does ahead of anything random. Nothing else changes. By hand
    more can be stored (arrays, shards, pre-tokenised data), and what is random be done for
    whole batches.

    ## When not to
    - When what is kept would not fit the memory or the disk, or there is one epoch only. Other
      datasets of the same class (validation) are kept as well.
    - When the dataset changes while training (`dataset.epoch = 3`, a buffer that grows): no
      edit is written where the source shows that.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.NUMERICS
    usual = 1.6
    warm_up_epochs = 1  # the first one makes the items
    try_before = (
        "torch_workers",
        "torch_file_per_item",
        "torch_column_per_item",
        "s3_request_latency",
        "storage_small_files",
        "storage_throughput",
    )

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find items that the loop waits for, and the functions in them."""
        if not evidence.input_bound:
            return None
        loader, timed = evidence.torch.loader, stage_seconds(evidence)
        own = {name: timed[name] for name in (ITEM, COLLATE) if name in timed}
        if ITEM not in own or own.get(COLLATE, 0.0) > own[ITEM]:
            return None
        seconds = sum(own.values())
        share = min(1.0, seconds / max(pipeline_seconds(evidence), evidence.times.input, 1e-9))
        if loader.workers:  # they share the work: of the time they take, it is as large a part
            share = min(1.0, seconds / max(pipeline_seconds(evidence), 1e-9))
        if share < REAL_SHARE:
            return None
        bound = evidence.bound_if_input_saves(evidence.times.input * share)
        if not worth(evidence, bound):
            return None
        kept = keepable(evidence)
        place = edited_place(loader) if kept else loader.item
        return self.finding(
            title="Each sample takes long to make",
            text=_text(evidence, loader, own) + kept_said(evidence, kept),
            bound=bound,
            bound_basis="items and collating cost nothing",
            where=() if place is None else (place,),
            advice=KEEP_ADVICE if kept else ITEMS_ADVICE,
            snippet=KEPT if kept else FOR_ITEMS,
            data=kept,
            equivalence=Equivalence.EXACT if kept else None,
            rewritable=bool(kept),
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try to keep what can be kept, unless it surely takes next to nothing."""
        kept, timed = keepable(evidence), stage_seconds(evidence)
        items = timed.get(ITEM)
        if not kept or takes_nothing(evidence, items):
            return None
        if items is not None and timed.get(COLLATE, 0.0) > items:
            return None
        place, bound = edited_place(evidence.torch.loader), waits_at_most(evidence)
        return self.finding(
            title="Each sample is made again in every epoch",
            text=f"{named(evidence.torch.loader)} makes each of its items again in every epoch."
            f"{kept_said(evidence, kept)}",
            bound=bound,
            bound_basis=UNTRIED if bound is None else "no step waits for its batch",
            where=() if place is None else (place,),
            advice=KEEP_ADVICE,
            snippet=KEPT,
            data=kept,
            equivalence=Equivalence.EXACT,
            rewritable=place is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Make each item once and keep it, or what it begins with ahead of anything random."""
        keep_items(script, finding.where[0], finding.data)


def _text(evidence: Evidence, loader: Loader, own: dict[str, float]) -> str:
    place = f" ({at(loader.item)})" if loader.item is not None else ""
    parts = [f"{ms(own[ITEM])} for its items{place}"]
    if COLLATE in own:
        parts.append(f"{ms(own[COLLATE])} to collate them")
    who = "One process takes" if loader.workers else "Each step takes"
    text = f"{named(loader)}: {who[0].lower() + who[1:]} {' and '.join(parts)}"
    per = evidence.loop.batch_size
    if per:
        text += f", {ms(own[ITEM] / per)} a sample"
    hot = [] if loader.workers else _functions(evidence)
    if not hot:
        return text + "."
    named_ones = ", ".join(
        f"{percent(each.share)} in `{each.name}` ({at(Site(each.file, each.line))})" for each in hot
    )
    return f"{text}. Of the loop's time on the main thread: {named_ones}."


def _functions(evidence: Evidence) -> list[FunctionCost]:
    """The user's functions most often found running, without those of the step itself.

    Samples of the stack name a method with its class, places of a call do not.
    """
    step = _of_the_step(evidence.torch)
    if evidence.loop.where is not None:
        step.add(evidence.loop.where.function)
    found = [
        each
        for each in evidence.functions
        if each.thread == "main" and each.name.rpartition(".")[2] not in step
    ]
    return sorted(found, key=lambda each: -each.share)[:MOST_NAMED]


def _of_the_step(torch: Torch) -> set[str]:
    names = {"forward", "<module>"}
    calls = torch.calls
    if calls is not None:
        sites = (calls.forward, calls.backward, calls.step, calls.zero_grad)
        names |= {site.function for site in sites if site is not None}
    return names
