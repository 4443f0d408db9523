"""Rules over files: their remarks, and what could not be read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.util import decode_source
from pathlib import Path

from trainperf.lint.rules import Remark, Rule
from trainperf.model import Site
from trainperf.recording.cells import cell_and_line, is_notebook
from trainperf.report.ignored import Comments
from trainperf.source.module import Module
from trainperf.source.notebooks.ipython import parse
from trainperf.source.notebooks.notebook import Notebook

_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
"""Folders that hold no source of the project's own, besides the hidden ones."""
_FRAMEWORKS = (b"torch", b"tensorflow", b"keras")
_NOT_PARSED = "does not parse as Python {}.{}".format(*sys.version_info)


@dataclass(frozen=True)
class Unread:
    """A file that could not be checked, and why; `line` is 0 where that has none.

    `cell` is the number of the notebook's cell that the line is of, 0 in other files.
    """

    path: Path
    reason: str
    line: int = 0
    cell: int = 0


@dataclass(frozen=True)
class Lint:
    """The remarks in order of files and lines, what could not be read, and how many files were."""

    seen: tuple[Remark, ...] = ()
    unread: tuple[Unread, ...] = ()
    files: int = 1


def lint(paths: Iterable[Path], rules: tuple[Rule, ...]) -> Lint:
    """Check files, and the Python files and notebooks in folders, by `rules`.

    Nothing is imported or run. A file that cannot be read or parsed is in `unread`.
    """
    files, seen, unread = tuple(find(paths)), list[Remark](), list[Unread]()
    for path in files:
        try:
            seen += _remarks(path, rules)
        except Exception as error:  # one file must not cost the reader the others
            unread.append(_failure(path, error))
    return Lint(tuple(seen), tuple(unread), len(files))


def _remarks(path: Path, rules: tuple[Rule, ...]) -> Iterator[Remark]:
    """Yield what the rules have to say of a file, but where a comment says to ignore it."""
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise OSError("is no regular file")
    data, notebook = path.read_bytes(), is_notebook(path.name)
    if not any(word in data for word in _FRAMEWORKS):
        return
    text = Notebook(data).text if notebook else decode_source(data)
    module, comments = Module(parse(text), text, str(path)), Comments(text.encode(errors="replace"))
    seen = [remark for rule in rules for remark in rule.remarks(module)]
    for remark in sorted(seen, key=lambda remark: (remark.line, remark.column)):
        if not comments.covering(remark.id, Site("", remark.line, end_line=remark.last_line)):
            cell, line = cell_and_line(remark.line) if notebook else (0, remark.line)
            yield replace(remark, path=path, cell=cell, line=line)


def _failure(path: Path, error: Exception) -> Unread:
    if isinstance(error, SyntaxError):
        line = error.lineno or 0
        cell, line = cell_and_line(line) if is_notebook(path.name) else (0, line)
        return Unread(path, f"{_NOT_PARSED}: {error.msg}", line, cell)
    if isinstance(error, RecursionError | MemoryError):
        return Unread(path, f"{_NOT_PARSED}: nested too deeply")
    return Unread(path, getattr(error, "strerror", None) or str(error))


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that are named, and those in the folders that are, each once.

    In folders: `.py` and `.ipynb`; not in hidden folders, `_SKIPPED`, or environments.
    Links to folders are not followed.
    """
    found = (file for path in paths for file in (_in_folder(path) if path.is_dir() else (path,)))
    yield from {os.path.abspath(file): file for file in found}.values()


def _in_folder(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and not name.startswith(".")
            and not os.path.exists(os.path.join(here, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            path = Path(here, name)
            if name.endswith((".py", ".ipynb")) and not name.startswith(".") and path.is_file():
                yield path
