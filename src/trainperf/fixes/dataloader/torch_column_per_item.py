"""Items that take whole columns of a table of `datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.dataloader._accesses import dearest
from trainperf.fixes.dataloader._loader import named
from trainperf.fixes.dataloader.edits.columns import take_rows
from trainperf.model import Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SNIPPET = """\
row = self.table[index]  # not self.table["text"][index]
text, label = row["text"], row["label"]"""

FOR_COLUMNS = """\
self.texts = list(dataset["text"])  # a column alone is a view: each element is read anew"""


class ColumnPerItem(Fix):
    """Take the row of an item, not its columns.

    ## Why it is slow
    `dataset["text"]` of Hugging Face's `datasets` makes a view of the column (before version 4 it
    reads all of it), and `[index]` looks an element of it up. That is done for each column and
    each item; a row is looked up once.

    ## What changes
    `self.table["text"][index]` becomes `self.table[index]["text"]`, of one row where several
    columns are taken. Columns that the dataset keeps as attributes become lists when it is
    built. The values are the same.

    ## When not to
    When a row has columns that are dear to decode (images, audio) and the item needs none of
    them: `select_columns` leaves them out. Lists hold their whole column in memory.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.EXACT
    usual = 1.5

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find elements of columns that items look up, where the loop waits for the items."""
        found = dearest(evidence, ("column",))
        if found is None:
            return None
        access, bound = found
        loader = evidence.torch.loader
        place = f" ({at(loader.item)})" if loader.item is not None else ""
        held = access.tables or access.columns
        return self.finding(
            title="Every item looks its columns up anew",
            text=f"{named(loader)}{place} takes {access.calls:.0f} elements of columns for each "
            f"item: {ms(access.seconds)}, {percent(access.share)} of what an item takes.",
            bound=bound,
            bound_basis="columns cost nothing",
            where=() if loader.item is None else (loader.item,),
            advice="Take the row and then its fields, or lists of the columns.",
            snippet=SNIPPET if access.tables else FOR_COLUMNS,
            data={"tables": list(access.tables), "columns": list(access.columns)},
            rewritable=bool(held) and loader.item is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Look up one row for each item."""
        take_rows(script, finding.where[0], finding.data["tables"], finding.data["columns"])
