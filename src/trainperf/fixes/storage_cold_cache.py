"""A first epoch that reads from storage what the later ones find in memory."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes._cases import machine
from trainperf.fixes._storage import GIB, MIB, from_storage, place, rate, reads, size, storing
from trainperf.fixes._words import ms, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Loop, Reads

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

BIG = reads(total_bytes=20 * GIB)


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

    silent = [
        # too little to notice
        storing(reads(total_bytes=1 * GIB)),
        # fast enough for the step
        storing(reads(total_bytes=20 * GIB, needed_bytes_s=90.0 * MIB)),
        # hardly slower than memory
        storing(reads(total_bytes=20 * GIB, warm_bytes_s=250.0 * MIB)),
        # it will not stay in memory
        storing(reads(total_bytes=900 * GIB)),
        storing(BIG, machine=machine(available=16 * GIB)),
        # not measured
        storing(reads(total_bytes=20 * GIB, cold_bytes_s=None, cold_parallel_bytes_s=None)),
        storing(reads(total_bytes=20 * GIB, needed_bytes_s=None)),
    ]
    fires = [
        storing(BIG),
        storing(BIG, loop=Loop("fit", epochs=1, batch_size=32)),
        # all was in memory while it was timed
        storing(reads(total_bytes=20 * GIB, stored_per_step=0.0), bound=False),
    ]

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
            bound = evidence.bound_if_input_saves((one.stored_per_step or 0.0) / cold)
            basis = "what a step reads from storage takes no time; in the first epoch only"
            if not worth(evidence, bound):
                return None
        return self.finding(
            title="The first epoch reads from storage what later ones have in memory",
            text=f"The {size(one.total_bytes)} on {place(one.volume)} fit into memory. Not there "
            f"yet, they come at {rate(cold)}, {times(warm / cold)} slower than from memory: the "
            f"first epoch takes about {ms(lost[one])} longer than the step needs. Later epochs "
            f"do not.",
            bound=bound,
            bound_basis=basis,
            advice="Read the files once in the background while the script starts, or put them "
            "on a local disk first. Time later epochs, not the first, when you compare runs.",
            snippet=SNIPPET.replace("{folder}", _folder(one)),
        )


def _folder(one: Reads) -> str:
    return one.examples[0].rpartition("/")[0] or "/data" if one.examples else "/data"


def _lost(one: Reads, evidence: Evidence) -> float:
    """Seconds by which the first epoch is longer; 0 where it is not, or that is not known."""
    cold, warm, needed = one.best_cold_bytes_s, one.warm_bytes_s, one.needed_bytes_s
    if cold is None or warm is None or needed is None or warm < SLOWER * cold:
        return 0.0
    if one.total_bytes > ROOM * evidence.machine.memory_available:
        return 0.0
    seconds = one.total_bytes / cold - one.total_bytes / min(needed, warm)
    return seconds if seconds >= LEAST_LOST_S else 0.0
