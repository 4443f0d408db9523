"""`trainperf explain`: the text of a fix is its docstring."""

from __future__ import annotations

import click

from trainperf.commands._shared import console, did_you_mean
from trainperf.errors import TrainperfError


@click.command(short_help="Explain a finding, or list all that there are.")
@click.argument("fix", required=False)
def explain(fix: str | None) -> None:
    """Explain a finding: why it is slow, what the repair changes, when not to make it.

    Without an id it lists them all.
    """
    from rich.markdown import Markdown
    from rich.text import Text

    from trainperf.fixes import by_id
    from trainperf.fixes._unseen import sentence
    from trainperf.report.sections.findings import EQUIVALENCE

    if fix is None:
        _list()
        return
    wanted, fixes, page = fix.replace("-", "_").lower(), by_id(), console()
    if wanted not in fixes:
        meant = did_you_mean(wanted, fixes, 3, 0.4)
        raise TrainperfError(
            f"there is no fix named {fix}", hint=f"{meant}`trainperf explain` lists them all"
        )
    found = fixes[wanted]
    patch = "advice only: no patch is written"
    if found.rewrites:
        patch = "trainperf can write the patch"
    elif found.sets_environment:
        patch = "variables to set, no edit"
    page.print(Text(found.id, style="bold"))
    changes = f"{found.category} · {EQUIVALENCE[found.equivalence]}"
    for line in filter(None, (changes, patch, sentence(found.id))):
        page.print(Text(line, style="dim"))
    page.print()
    page.print(Markdown(found.documentation), width=min(page.width, 96))


def _list() -> None:
    from rich.table import Table
    from rich.text import Text

    from trainperf.fixes import all_fixes

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for fix in sorted(all_fixes(), key=lambda fix: (fix.category, fix.id)):
        table.add_row(Text(fix.id, style="bold"), Text(fix.summary))
    page = console()
    page.print(table)
    page.print()
    page.print(Text("trainperf explain ID says why, what changes, and when not to.", style="dim"))
