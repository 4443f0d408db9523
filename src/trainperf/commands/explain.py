"""`trainperf explain`: the text of a fix is its docstring."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from trainperf.errors import TrainperfError
from trainperf.fixes import all_fixes, by_id
from trainperf.fixes._unseen import sentence
from trainperf.report.sections.findings import EQUIVALENCE

if TYPE_CHECKING:
    from rich.console import Console


def render(name: str | None, console: Console) -> None:
    """Print the text of one fix, or the list of all of them."""
    if name is None:
        _list(console)
        return
    wanted, fixes = name.replace("-", "_").lower(), by_id()
    if wanted not in fixes:
        near = difflib.get_close_matches(wanted, fixes, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise TrainperfError(
            f"there is no fix named {name}", hint=f"{hint}`trainperf explain` lists them all"
        )
    fix = fixes[wanted]
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.text import Text

    patch = "advice only: no patch is written"
    if fix.rewrites:
        patch = "trainperf can write the patch"
    elif fix.sets_environment:
        patch = "variables to set, no edit"
    console.print(Text(fix.id, style="bold"))
    changes = f"{fix.category} · {EQUIVALENCE[fix.equivalence]}"
    for line in filter(None, (changes, patch, sentence(fix.id))):
        console.print(Text(line, style="dim"))
    console.print()
    console.print(Padding(Markdown(fix.documentation), (0, 0, 0, 0)), width=min(console.width, 96))


def _list(console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for fix in sorted(all_fixes(), key=lambda fix: (fix.category, fix.id)):
        table.add_row(Text(fix.id, style="bold"), Text(fix.summary))
    console.print(table)
    console.print()
    console.print(
        Text("trainperf explain ID says why, what changes, and when not to.", style="dim")
    )
