"""A first epoch that reads from storage what the later ones find in memory."""

from __future__ import annotations

from dataclasses import replace

from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, times, worth
from trainperf.fixes.storage._storage import epoch_bytes, folder, from_storage, place, rate
from trainperf.model import Equivalence, Evidence, Finding, Reads
from trainperf.model.words import size

SLOWER = 3.0
"""Cold reads at least so many times slower than warm ones: the first epoch shows it."""

LEAST_LOST_S = 30.0
"""A first epoch that loses less than this is not worth a word."""

ROOM = 0.8
"""Share of the available memory that the kernel may well fill with files."""

SNIPPET = """\
# while the model is being built: read everything once, with eight readers
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

def read(path):
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass

reading = ThreadPoolExecutor(8).map(read, Path("{folder}").rglob("*.*"))"""


class WarmTheCache(Fix):
    """Read the files into memory before the first epoch, or expect it to be slow.

    ## Why it is slow
    The first epoch reads every file from storage. Later ones find them in the kernel's
    cache, if all of them fit into memory, and are many times faster.

    ## What changes
    The files are read once by several readers while the script still starts, or copied to
    a local disk before. Only the first epoch gets shorter.

    ## When not to
    - When the data does not fit into memory: it is read anew in each epoch.
    - When training goes on for so many epochs that the first one does not matter.
    """

    category = "storage"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find files that fit into memory and are read much slower the first time."""
        lost = {one: seconds for one in evidence.reads if (seconds := _lost(one, evidence))}
        if not lost:
            return None
        one = max(lost, key=lambda one: lost[one])
        cold, warm = one.best_cold_bytes_s or 0.0, one.warm_bytes_s or 0.0
        bound = None
        basis = "none: while it was timed, the files were read from memory"
        if evidence.input_bound and from_storage(one):
            now = evidence.bound_if_input_saves((one.stored_per_step or 0.0) / cold)
            if not worth(evidence, now):
                return None
            bound, basis = _of_all_epochs(now, evidence)
            if bound is not None and not worth(evidence, bound):
                return None
        found = self.finding(
            title="The first epoch reads from storage what later ones have in memory",
            text=f"The {size(epoch_bytes(one, evidence))} of an epoch on {place(one.volume)} fit "
            "into memory. Not there "
            f"yet, they come at {rate(cold)}, {times(warm / cold)} slower than from memory: the "
            f"first epoch takes about {ms(lost[one])} longer than the step needs. Later epochs "
            f"do not.",
            bound=bound,
            bound_basis=basis,
            advice="Read the files once in the background while the script starts, or put them "
            "on a local disk first. Time later epochs, not the first, when you compare runs.",
            snippet=SNIPPET.replace("{folder}", folder(one)),
        )
        # Without a price it is a word on the first epoch, and nothing that a step loses.
        return found if bound is not None else replace(found, category="practice")


def _of_all_epochs(now: float, evidence: Evidence) -> tuple[float | None, str]:
    """Return the gain of the whole training if the first of its epochs runs `now` times as fast."""
    epochs = evidence.loop.epochs
    if not epochs:
        return None, "none: the first epoch alone is slower, and how many follow is not known"
    basis = "what a step reads from storage takes no time"
    if epochs > 1:
        basis += f"; in the first of {epochs} epochs"
    return (now + epochs - 1) / epochs, basis


def _lost(one: Reads, evidence: Evidence) -> float:
    """Seconds by which the first epoch is longer; 0 where it is not, or that is not known."""
    cold, warm, needed = one.best_cold_bytes_s, one.warm_bytes_s, one.needed_bytes_s
    if cold is None or warm is None or needed is None or warm < SLOWER * cold:
        return 0.0
    total = epoch_bytes(one, evidence)
    if total > ROOM * evidence.machine.memory_available:
        return 0.0
    seconds = total / cold - total / min(needed, warm)
    return seconds if seconds >= LEAST_LOST_S else 0.0
