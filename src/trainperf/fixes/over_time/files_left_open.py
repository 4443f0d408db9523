"""Files, pipes or sockets that are opened in the loop and never closed."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import evidence
from trainperf.fixes.over_time import _growth as growth
from trainperf.fixes.over_time._growth import LATE, LIST, over_time
from trainperf.model import Evidence, Finding, Grown

MANY = 20
"""So many more open files are a leak; fewer may be a pool that fills."""

OPEN = Grown(
    "files", "open files", ((40, 30), (240, 130), (640, 330)), examples=("/data/log.txt", "pipe")
)


class FilesLeftOpen(Fix):
    """Close what the loop opens: `with open(…) as file:`.

    ## Why it is slow
    Each open file takes memory and one of the process's numbers for files, of which there
    are often 1,024: with the last one the training ends with "Too many open files". Data that
    waits in their buffers is not written.

    ## What changes
    A `with` closes the file where its block ends; a writer that is opened once, before the
    loop, serves all steps.

    ## When not to
    Where they are held on purpose (`numpy.memmap` of each shard) and their number ends.
    """

    framework = "any"
    category = "host"
    counted = True
    without_edit = "where each of them is closed is not in one line of the source"

    silent = [
        evidence(),
        evidence(over_time_=over_time(grown=(LIST,))),
        evidence(over_time_=over_time(grown=(Grown("files", "open files", ((1, 9), (2, 12))),))),
    ]
    fires = [
        evidence(over_time_=over_time(grown=(OPEN,))),
        evidence(over_time_=over_time(1.3, grown=(LIST, OPEN))),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find that more files were open at each look, and many more at the last."""
        for one in evidence.over_time.grown:
            (first, before), (last, after) = one.sizes[0], one.sizes[-1]
            if one.kind != "files" or after - before < MANY:
                continue
            most = ", ".join(f"`{path}`" for path in one.examples)
            return self.finding(
                title="The loop opens files and does not close them",
                text=f"{before:,} files were open after {first:,} steps, {after:,} after {last:,}"
                f"{f'; most often {most}' if most else ''}.{growth.consequence(evidence)}",
                bound=growth.bound(evidence),
                bound_basis=growth.basis(evidence),
                snippet='with open(path, "a") as file:\n    file.write(line)',
                data=LATE,
            )
        return None
