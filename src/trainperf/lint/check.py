"""Rules over files: their remarks, and what could not be read."""

from __future__ import annotations

import ast
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
from trainperf.source.notebooks.notebook import NotANotebook, Notebook, text_of
from trainperf.source.project import Project

_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
"""Folders that hold no source of the project's own, besides the hidden ones."""
_FRAMEWORKS = (b"torch", b"tensorflow", b"keras")
_NOT_PARSED = "does not parse as Python {}.{}".format(*sys.version_info)


@dataclass(frozen=True)
class Unread:
    """A file that could not be checked, and why. `line` is 0 where there is none.

    `cell` is the number of the notebook's cell that could not be, 0 for a file as a whole.
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

    Nothing is imported or run. A file that cannot be read or parsed is in `unread`, and so
    is a cell of a notebook that cannot be; its other cells are checked.
    """
    files = tuple(find(paths))
    named = {os.path.abspath(path): path for path in files if path.suffix == ".py"}

    def parsed(path: str) -> Module | None:
        try:
            text = decode_source(named[path].read_bytes())
            return Module(parse(text), text)
        except Exception:
            return None  # it is said of the file itself

    # nothing outside of what was named is looked at
    project = Project(lambda path: b"" if path in named else None, parsed, ())
    each = [_file(path, rules, project) for path in files]
    return Lint(
        tuple(remark for one in each for remark in one.seen),
        tuple(unread for one in each for unread in one.unread),
        len(files),
        tuple(comment for one in each for comment in one.comments),
    )


def _file(path: Path, rules: tuple[Rule, ...], project: Project) -> Lint:
    try:
        if not path.is_file() and path.exists():  # a pipe would be waited for
            raise OSError("is no regular file")
        data = path.read_bytes()
        if not any(word in data for word in _FRAMEWORKS):
            return Lint()
        notebook = Notebook(data) if is_notebook(path.name) else None
        text = decode_source(data) if notebook is None else notebook.text
        tree, unread = _tree(path, text, notebook)
        module = Module(tree, text, str(path), project)
        seen = [remark for rule in rules for remark in rule.remarks(module)]
    except Exception as error:  # one file must not cost the reader the others
        return Lint(unread=(_failure(path, error),))
    lines = Lines(str(path), text.encode("utf-8", "replace"))
    sites = ((remark, Site(str(path), remark.line, end_line=remark.last_line)) for remark in seen)
    placed = [_placed(one, path) for one, site in sites if lines.comment(one.id, site) is None]
    wrong = (one for one in lines.comments if one.wrong and notebook is None)
    return Lint(
        tuple(sorted(placed, key=lambda remark: (remark.cell, remark.line, remark.column))),
        unread,
        comments=tuple(Unread(path, comment.wrong, comment.line) for comment in wrong),
    )


def _failure(path: Path, error: Exception) -> Unread:
    if isinstance(error, OSError | NotANotebook):
        return Unread(path, getattr(error, "strerror", None) or str(error))
    if isinstance(error, SyntaxError):
        return Unread(path, f"{_NOT_PARSED}: {error.msg}", error.lineno or 0)
    deep = isinstance(error, RecursionError | MemoryError)
    return Unread(path, f"{_NOT_PARSED}: {'nested too deeply' if deep else error}")


def _tree(
    path: Path, text: str, notebook: Notebook | None
) -> tuple[ast.Module, tuple[Unread, ...]]:
    """Parse a file; where a notebook does not, without the cells that do not parse alone."""
    try:
        return parse(text), ()
    except SyntaxError:
        if notebook is None:
            raise
    sound, unread = [], []
    for cell in notebook.cells:
        try:
            parse(cell.code)
            sound.append(cell)
        except SyntaxError as error:
            unread.append(replace(_failure(path, error), cell=cell.number))
    return parse(text_of(sound)), tuple(unread)


def _placed(remark: Remark, path: Path) -> Remark:
    if not is_notebook(path.name):
        return replace(remark, path=path)
    cell, line = cell_and_line(remark.line)
    last = line + remark.last_line - remark.line
    return replace(remark, path=path, cell=cell, line=line, last_line=last)


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
