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
from trainperf.report.ignored import Lines
from trainperf.source.module import Module
from trainperf.source.notebooks.ipython import parse
from trainperf.source.notebooks.notebook import NotANotebook, Notebook

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
    """The remarks in order of files and lines, and how many files were read.

    `comments` are those that ignore nothing, with their line and what is wrong with them.
    """

    seen: tuple[Remark, ...] = ()
    unread: tuple[Unread, ...] = ()
    files: int = 1
    comments: tuple[Unread, ...] = ()


def lint(paths: Iterable[Path], rules: tuple[Rule, ...]) -> Lint:
    """Check files, and the Python files and notebooks in folders, by `rules`.

    Nothing is imported or run. A file that cannot be read or parsed is in `unread`.
    """
    files = tuple(find(paths))
    checked = [_checked(path, rules) for path in files]
    return Lint(
        tuple(remark for of_file in checked for remark in of_file.seen),
        tuple(unread for of_file in checked for unread in of_file.unread),
        len(files),
        tuple(comment for of_file in checked for comment in of_file.comments),
    )


def _checked(path: Path, rules: tuple[Rule, ...]) -> Lint:
    notebook = is_notebook(path.name)
    try:
        if not path.is_file() and path.exists():  # a pipe would be waited for
            raise OSError("is no regular file")
        data = path.read_bytes()
        if not any(word in data for word in _FRAMEWORKS):
            return Lint()
        text = Notebook(data).text if notebook else decode_source(data)
        module = Module(parse(text), text, str(path))
        seen = [remark for rule in rules for remark in rule.remarks(module)]
    except Exception as error:  # one file must not cost the reader the others
        return Lint(unread=(_failure(path, error),))
    lines = Lines(str(path), text.encode("utf-8", "replace"))
    sites = ((remark, Site(str(path), remark.line, end_line=remark.last_line)) for remark in seen)
    kept = [remark for remark, site in sites if lines.comment(remark.id, site) is None]
    placed = []
    for remark in sorted(kept, key=lambda remark: (remark.line, remark.column)):
        cell, line = cell_and_line(remark.line) if notebook else (0, remark.line)
        placed.append(replace(remark, path=path, cell=cell, line=line))
    wrong = (comment for comment in lines.comments if comment.wrong and not notebook)
    return Lint(
        tuple(placed),
        comments=tuple(Unread(path, comment.wrong, comment.line) for comment in wrong),
    )


def _failure(path: Path, error: Exception) -> Unread:
    if isinstance(error, OSError | NotANotebook):
        return Unread(path, getattr(error, "strerror", None) or str(error))
    if isinstance(error, SyntaxError):
        line = error.lineno or 0
        cell, line = cell_and_line(line) if line and is_notebook(path.name) else (0, line)
        return Unread(path, f"{_NOT_PARSED}: {error.msg}", line, cell)
    deep = isinstance(error, RecursionError | MemoryError)
    return Unread(path, f"{_NOT_PARSED}: {'nested too deeply' if deep else error}")


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
