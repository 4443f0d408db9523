"""`trainperf compare A B`."""

from __future__ import annotations

from pathlib import Path

import click

from trainperf.commands._shared import console, read_settings


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(a: Path, b: Path, as_json: bool) -> None:
    """Say what is different in run B against run A.

    Each is the name of a run, its folder, or a JSON file. What differs by no more than
    the noise of the two is not called a change. Machines on which times cannot be
    compared are named; the rest is compared even so.
    """
    from trainperf import compare as comparing
    from trainperf import store
    from trainperf.commands import run_folders

    settings = read_settings({})
    first, second = (store.load(run_folders.find(one, settings)) for one in (a, b))
    comparison = comparing.compare(first, second)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(comparison), indent=2).decode())
        return
    from trainperf.reporters.terminal.comparison import render

    render(comparison, console(color=settings.color))
