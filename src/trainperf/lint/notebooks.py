"""The code of notebooks: what of their cells is Python."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator

Cells = tuple[tuple[int, int], ...]
"""The number of the cell and the line within it of each line of a notebook's code."""

_ASSIGNED = re.compile(r"^(\s*[\w, ]+=\s*)[!%](?!=)")
_HELP = re.compile(r"^\s*[\w.]+\?\??\s*$")


def code(data: bytes) -> tuple[str, Cells]:
    """Return the code of a notebook's cells, and where its lines stand; both count from 1.

    Commands to IPython (`%…`, `!…`, `name?`) are lines that do nothing, cells that begin with
    `%%` are left out. Raises `ValueError`, `KeyError`, `TypeError` or `RecursionError` for
    what is no notebook.
    """
    lines: list[str] = []
    cells: list[tuple[int, int]] = []
    for number, cell in enumerate(json.loads(data)["cells"], start=1):
        if cell["cell_type"] != "code":
            continue
        text = "".join(cell["source"])
        if text.lstrip().startswith("%%"):  # a cell of another language, or measured
            continue
        own = list(_python(text))
        lines += own
        cells += [(number, line) for line in range(1, len(own) + 1)]
    return "\n".join(lines), tuple(cells)


def parse(text: str) -> ast.Module:
    """Parse the code of cells, in which `await` may stand outside of functions."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are for others to say
        parsed = compile(text, "<notebook>", "exec", flags, dont_inherit=True)
    assert isinstance(parsed, ast.Module)
    return parsed


def broken(text: str, cells: Cells) -> dict[int, SyntaxError]:
    """Return the cells that do not parse by themselves, by their numbers."""
    found = {}
    lines = text.split("\n")
    for number in dict.fromkeys(cell for cell, _ in cells):
        own = [line for line, (cell, _) in zip(lines, cells, strict=True) if cell == number]
        try:
            parse("\n".join(own))
        except SyntaxError as error:
            found[number] = error
    return found


def without(text: str, cells: Cells, left_out: dict[int, SyntaxError]) -> str:
    """Return the code with nothing on the lines of some cells."""
    pairs = zip(text.split("\n"), cells, strict=True)
    return "\n".join("" if cell in left_out else line for line, (cell, _) in pairs)


def _python(text: str) -> Iterator[str]:
    """Yield the lines of a cell; what only IPython understands does nothing."""
    lines = text.split("\n")
    if not any(map(_is_command, lines)) or _parses(text):  # `% y` may end a formula
        yield from lines
        return
    goes_on = False  # a command, with a backslash at the end of its line
    for line in lines:
        begins = not goes_on and _is_command(line)
        if begins:
            yield _idle(line)
        else:
            yield "" if goes_on else line
        goes_on = (begins or goes_on) and line.endswith("\\")


def _is_command(line: str) -> bool:
    bare = line.lstrip()
    return bare.startswith(("%", "!", "?")) or bool(_ASSIGNED.match(line) or _HELP.match(line))


def _idle(line: str) -> str:
    assigned = _ASSIGNED.match(line)
    if assigned is not None:
        return f"{assigned[1]}input()"
    return line[: len(line) - len(line.lstrip())] + "pass"


def _parses(text: str) -> bool:
    try:
        parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
