"""A `PyDataset` that makes the same of its items again in every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.keeping import INSIDE, MOST
from trainperf.fixes.common.pipeline import input_at_most, known, upper
from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, percent, size, worth
from trainperf.fixes.tf_data.edits.kept_items import keep_items
from trainperf.model import Equivalence, Evidence, Finding, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

ADVICE = "Make what is the same of an item in every epoch once, and keep it."

KEPT = """\
@made_once  # keeps what it returned for an item
def load(self, path):
    return resize(decode(path))

def __getitem__(self, index):
    return np.stack([augment(self.load(path)) for path in self.batch(index)])"""


class PyDatasetItems(Fix):
    """Make what is the same of an item of a `PyDataset` in every epoch once, and keep it.

    ## Why it is slow
    `__getitem__` of a `PyDataset` (`Sequence` in Keras 2) opens, decodes and resizes the items of
    a batch again in every epoch, although only what it draws for them differs.

    ## What changes
    Statements and calls that give the same for the same item (a path, an index) are moved into
    a function that keeps what it returned, in memory, by the item. Each caller gets a copy where it
    might change it. What is random stays where it is, and draws the same numbers.

    ## When not to
    When all items do not fit the memory, or there is one epoch only. Other datasets of the same
    class (validation) are kept as well.
    When worker processes make the batches: Keras starts them anew in each epoch, and what they kept
    is lost. Threads share it.
    When the dataset changes while training (`dataset.size = 128`), or files are written anew: no
    edit is written where the source shows that.
    """

    category = "input"
    framework = "keras"
    usual = 1.7
    equivalence = Equivalence.EXACT
    warm_up_epochs = 1  # the first one makes the items

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a PyDataset whose batches the model waits for, in more than one epoch."""
        held, epochs = _held(evidence), evidence.loop.epochs
        if held is None or not evidence.input_bound:
            return None
        bound = evidence.bound_if_input_saves(evidence.times.input)
        if not worth(evidence, bound if epochs is None else epochs / (1 + (epochs - 1) / bound)):
            return None
        text = (
            f"{_maker(evidence)} takes {ms(evidence.times.input)} for each batch, in every epoch."
            f"{_hot(evidence)} What is the same of an item in every epoch has to be made only "
            f"once; kept, it takes {_room(evidence, held)}."
        )
        return self._finding(
            evidence, text, bound, upper(evidence, "batches cost nothing from the second epoch on")
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try to keep what fits, wherever batches may be what the model waits for."""
        held, most = _held(evidence), input_at_most(evidence)
        if held is None or most <= 1 + SMALLEST_GAIN:
            return None
        text = (
            f"{_maker(evidence)} makes its items again in every epoch; kept, what is the same of "
            f"them takes {_room(evidence, held)}."
        )
        return self._finding(
            evidence, text, known(most), upper(evidence, "input costs nothing once items are kept")
        )

    def _finding(self, evidence: Evidence, text: str, bound: float | None, basis: str) -> Finding:
        loop = evidence.loop
        users = (loop.where, loop.pydataset)
        return self.finding(
            title="The same is made of each item again in every epoch",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(loop.pydataset_item,) if loop.pydataset_item else (),
            advice=ADVICE,
            snippet=KEPT,
            data={"files": [each.file for each in users if each is not None]},
            rewritable=True,
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """Keep nothing where batches come from processes: Keras ends them with each epoch."""
        if not other.data.get("use_multiprocessing"):
            return ""
        return "worker processes end with each epoch, and what they kept with them"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move what is the same of an item into a function whose results are kept."""
        keep_items(script, finding.where[0], finding.data["files"])


def _held(evidence: Evidence) -> float | None:
    """The bytes that all items take at most; None where nothing is to be kept."""
    loop = evidence.loop
    processes = loop.pydataset_arguments.get("use_multiprocessing", True)
    kept = loop.input_kind == "PyDataset" and loop.pydataset_item is not None and not processes
    if not kept or loop.epochs == 1 or not loop.batch_bytes or not loop.epoch_steps:
        return None
    turns = loop.epoch_steps * loop.batches_per_step
    held = float(loop.batch_bytes * turns * INSIDE)
    return held if held < MOST * evidence.machine.memory_available else None


def _room(evidence: Evidence, held: float) -> str:
    """Say what all items take, as large as they are in a batch or before it, of what is free."""
    free = size(evidence.machine.memory_available)
    return f"about {size(held / INSIDE)}, at most {size(held)}, of the {free} of memory free"


def _maker(evidence: Evidence) -> str:
    place = evidence.loop.pydataset_item
    return f"`__getitem__`{'' if place is None else f' ({at(place)})'} of the `PyDataset`"


def _hot(evidence: Evidence) -> str:
    """Name the user's function in which the thread that makes batches was found most often."""
    makers = [each for each in evidence.functions if each.thread == "worker"]
    most = max(makers, key=lambda each: each.share, default=None)
    if most is None:
        return ""
    place = at(Site(most.file, most.line))
    return f" Its thread was found in `{most.name}` ({place}) in {percent(most.share)} of samples."
