"""A file that is opened anew for every sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.dataloader._accesses import dearest
from trainperf.fixes.dataloader._loader import named
from trainperf.fixes.dataloader.edits.opening import HANDLES, open_once
from trainperf.model import Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script

WHOLE = (
    "numpy.load",
    "pandas.read_csv",
    "pandas.read_parquet",
    "pyarrow.parquet.read_table",
)
"""What reads a file to its end."""

SNIPPET = """\
def __getitem__(self, index):  # self.process is None at first
    if self.process != os.getpid():  # each worker opens the file itself, when it needs it
        self.file, self.process = h5py.File(self.path), os.getpid()
    return self.file["x"][index]"""

FOR_WHOLE = """\
def __init__(self, path):
    self.rows = pandas.read_parquet(path)  # once, not in __getitem__"""


class FilePerItem(Fix):
    """Open a file once, not for every item.

    ## Why it is slow
    Opening an HDF5 file, an archive, a Parquet file or a database reads and parses its table
    of contents, and closing it drops what was cached. An item then takes a few kilobytes of it.
    What reads the whole file (`read_parquet`, `numpy.load`) does so for each item.

    ## What changes
    The file is opened by the first item that a process makes, and stays open for the next ones.
    Each worker opens it for itself: handles that are shared with a forked worker corrupt what
    it reads. What is read of the file is the same.

    ## When not to
    When the file changes while training, or each item has a file of its own: then only what is
    done with its content can be saved. A table that is read whole needs the memory for it.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.EXACT
    usual = 1.5

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a file that items wait to be opened, where the loop waits for the items."""
        found = dearest(evidence, (*HANDLES, *WHOLE), cold=True)
        if found is None:
            return None
        access, bound = found
        loader = evidence.torch.loader
        whole = access.name in WHOLE
        place = f" ({at(loader.item)})" if loader.item is not None else ""
        often = "" if access.calls < 1.5 else f" {access.calls:.0f} times"
        does = "reads a whole file" if whole else "opens a file"
        return self.finding(
            title=f"Every item {does}",
            text=f"{named(loader)}{place} calls `{access.name}`{often} for each item: "
            f"{ms(access.seconds)}, {percent(access.share)} of what an item takes.",
            bound=bound,
            bound_basis="items cost nothing; what is read of a file just opened is slower too",
            where=() if loader.item is None else (loader.item,),
            advice="Read it once, where the dataset is built."
            if whole
            else "Open it once in each process, when its first item is made.",
            snippet=FOR_WHOLE if whole else SNIPPET,
            data={"name": access.name},
            rewritable=not whole and loader.item is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Keep the file open in each process that reads it."""
        open_once(script, finding.where[0], finding.data["name"])
