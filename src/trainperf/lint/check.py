"""Rules over files: their remarks, and what could not be read."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.util import decode_source
from pathlib import Path

from trainperf.lint.rule import Remark, Rule
from trainperf.model import Site
from trainperf.recording.cells import cell_and_line, is_notebook
from trainperf.source.module import Module
from trainperf.source.notebooks.ipython import parse
from trainperf.source.notebooks.notebook import NotANotebook, Notebook, text_of
from trainperf.source.origins.project import Project

_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
"""Folders that hold no source of the project's own, besides the hidden ones."""
LARGEST = 2_000_000
"""Bytes above which a file is taken for data, not for source."""
_FRAMEWORKS = (b"torch", b"tensorflow", b"keras")
_NOT_PARSED = "does not parse as Python {}.{}".format(*sys.version_info)
_FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError)


class Unreadable(ValueError):  # noqa: N818 - names an outcome; the message is the reason
    """A file that cannot be read, with the reason."""


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

    seen: tuple[Remark, ...]
    unread: tuple[Unread, ...]
    files: int
    comments: tuple[Unread, ...] = ()


def lint(paths: Iterable[Path], rules: Iterable[Rule]) -> Lint:
    """Check files, and the Python files and notebooks in folders, by `rules`.

    Nothing is imported or run. A file that cannot be read or parsed is in `unread`, and so
    is a cell of a notebook that cannot be; its other cells are checked.
    """
    rules, files = tuple(rules), tuple(find(paths))
    named = {os.path.abspath(path): path for path in files if path.suffix == ".py"}

    def parsed(path: str) -> Module | None:
        try:
            text = _text(_data(named[path]))
            return Module(parse(text), text)
        except _FAILURES:
            return None  # it is said of the file itself

    # nothing outside of what was named is looked at
    project = Project(lambda path: b"" if path in named else None, parsed, ())
    unread, comments = list[Unread](), list[Unread]()
    seen = [one for path in files for one in _file(path, rules, project, unread, comments)]
    return Lint(tuple(seen), tuple(unread), len(files), tuple(comments))


def _file(
    path: Path,
    rules: tuple[Rule, ...],
    project: Project,
    unread: list[Unread],
    comments: list[Unread],
) -> list[Remark]:
    try:
        data = _data(path)
        if not any(word in data for word in _FRAMEWORKS):
            return []
        notebook = Notebook(data) if is_notebook(path.name) else None
        text = _text(data) if notebook is None else notebook.text
        rules = tuple(rule for rule in rules if rule.concerns(text))
        tree = _tree(path, text, notebook, unread) if rules else ast.parse("")
    except _FAILURES as error:
        unread.append(_failure(path, error))
        return []
    module = Module(tree, text, str(path), project)
    seen: list[Remark] = []
    for rule in rules:
        try:
            seen += rule.remarks(module)
        except Exception as error:  # one rule must not cost the reader the others
            what = "nested too deeply" if isinstance(error, RecursionError) else repr(error)
            unread.append(Unread(path, f"not checked for {rule.id}: {what}"))
    placed = [_placed(remark, path) for remark in _without_ignored(seen, path, text, comments)]
    return sorted(placed, key=lambda one: (one.cell, one.line, one.column, one.id))


def _failure(path: Path, error: Exception) -> Unread:
    if isinstance(error, Unreadable | NotANotebook):
        return Unread(path, str(error))
    if isinstance(error, SyntaxError):
        return Unread(path, f"{_NOT_PARSED}: {error.msg}", error.lineno or 0)
    reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
    return Unread(path, f"{_NOT_PARSED}: {reason}")


def _tree(path: Path, text: str, notebook: Notebook | None, unread: list[Unread]) -> ast.Module:
    """Parse a file; where a notebook does not, without the cells that do not parse alone."""
    try:
        return parse(text)
    except SyntaxError:
        if notebook is None:
            raise
    sound = []
    for cell in notebook.cells:
        try:
            parse(cell.code)
            sound.append(cell)
        except SyntaxError as error:
            unread.append(replace(_failure(path, error), cell=cell.number))
    return parse(text_of(sound))


def _without_ignored(
    remarks: list[Remark], path: Path, text: str, comments: list[Unread]
) -> list[Remark]:
    """Return the remarks that no comment turns off; add the `comments` that turn nothing off."""
    if "trainperf:" not in text:
        return remarks
    from trainperf.report.ignored import Lines  # it loads the catalogue

    lines = Lines(str(path), text.encode("utf-8", "replace"))
    if not is_notebook(path.name):
        comments += [Unread(path, one.wrong, one.line) for one in lines.comments if one.wrong]
    sites = ((one, Site(str(path), one.line, end_line=one.last_line)) for one in remarks)
    return [one for one, site in sites if lines.comment(one.id, site) is None]


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


def _data(path: Path) -> bytes:
    if not path.is_file() and path.exists():  # a pipe would be waited for
        raise Unreadable("is no regular file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error


def _text(data: bytes) -> str:
    if len(data) > LARGEST:
        raise Unreadable(f"larger than {LARGEST // 1_000_000} MB")
    try:
        return decode_source(data)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Unreadable(f"not text: {error}") from error
