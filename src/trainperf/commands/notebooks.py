"""A notebook as the program to run: what of it a script can do, and what is left out."""

from __future__ import annotations

from pathlib import Path

from trainperf.errors import TrainperfError
from trainperf.model.words import count
from trainperf.recording.cells import STRIDE, spot
from trainperf.report.plain import one_line
from trainperf.source.notebooks.notebook import NotANotebook, Notebook

MOST_NAMED = 4
"""So many commands are named of those that are left out."""


def check(path: Path) -> None:
    """Refuse a notebook whose cells a script could not run. Raises `TrainperfError`."""
    try:
        notebook = Notebook(path.read_bytes())
    except OSError as error:
        raise TrainperfError(f"{path.name} cannot be read: {error.strerror}", "check it") from error
    except NotANotebook as error:
        raise TrainperfError(
            f"{path.name} cannot be run as a notebook: {error}",
            hint="it takes notebooks of Jupyter (nbformat 4) in Python",
        ) from error
    if not notebook.cells:
        raise TrainperfError(f"{path.name} has no cell with code", hint="name another notebook")
    cells = [(cell.number, cell.code) for cell in notebook.cells]
    for number, code in (*cells, (0, notebook.text)):
        try:
            compile(code, path.name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = number * STRIDE + (getattr(error, "lineno", 0) or 0)
            where = f"{path.name}, {spot(path.name, line)}"
            shown = f": {text.strip()}" if (text := getattr(error, "text", "")) else ""
            told = f"{where} is not valid Python: {getattr(error, 'msg', error)}{shown}"
            raise TrainperfError(told, hint="mend or empty the cell") from None


def notes(path: Path) -> tuple[str, ...]:
    """Return what the report is to say of how a notebook is run."""
    left_out = Notebook(path.read_bytes()).left_out
    if not left_out:
        return ()
    named = [f"`{one_line(line)}` (cell {cell})" for cell, line in left_out[:MOST_NAMED]]
    more = f" and {len(left_out) - MOST_NAMED} more" if len(left_out) > MOST_NAMED else ""
    commands = count(len(left_out), "command")
    return (f"{commands} to IPython left out: {', '.join(named)}{more}",)
