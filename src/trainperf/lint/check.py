"""Rules, found by being there, over files: their remarks, and what could not be read."""

from __future__ import annotations

import ast
import io
import os
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from trainperf.lint import rules
from trainperf.lint.rule import Remark, Rule
from trainperf.model.discover import discovered
from trainperf.recording.cells import cell_and_line, is_notebook
from trainperf.source.module import Module
from trainperf.source.notebooks.ipython import parse
from trainperf.source.notebooks.notebook import NotANotebook, Notebook, text_of
from trainperf.source.origins.project import Project

if TYPE_CHECKING:
    from trainperf.report.ignored import Comment

_NOT_PARSED = "does not parse as Python {}.{}".format(*sys.version_info)

_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
"""Folders that hold no source of the project's own, besides the hidden ones."""
LARGEST = 2_000_000
"""Bytes above which a file is taken for data, not for source."""
_FRAMEWORKS = (b"torch", b"tensorflow", b"keras")


class Unreadable(Exception):  # noqa: N818 - names an outcome; the message is the reason
    """A file that cannot be read, with the reason."""


@dataclass(frozen=True)
class Source:
    """The text of a file, its line ends "\\n"; that of a `notebook`, see `recording.cells`."""

    text: str
    notebook: Notebook | None = None


@dataclass(frozen=True)
class PlacedRemark:
    """A remark and its file. `cell` is the number of a notebook's cell, 0 in other files."""

    path: Path
    remark: Remark
    cell: int = 0


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

    seen: tuple[PlacedRemark, ...]
    unread: tuple[Unread, ...]
    files: int
    comments: tuple[Unread, ...] = ()


def lint(paths: Iterable[Path], rules: Iterable[Rule]) -> Lint:
    """Check files, and the Python files and notebooks in folders, by `rules`.

    Nothing is imported or run. A file that cannot be read or parsed is in `unread`, and so
    is a cell of a notebook that cannot be; its other cells are checked.
    """
    rules = tuple(rules)
    seen: list[PlacedRemark] = []
    unread: list[Unread] = []
    comments: list[Unread] = []
    found = list(find(paths))
    project = Project(_Checked(found), ())
    for path in found:
        seen += _file(path, rules, project, comments, unread)
    return Lint(tuple(seen), tuple(unread), len(found), tuple(comments))


def _file(
    path: Path,
    rules: tuple[Rule, ...],
    project: Project,
    comments: list[Unread],
    unread: list[Unread],
) -> list[PlacedRemark]:
    try:
        source = _read(path)
        if source is None:
            return []
        ignoring = _comments(source.text)
        if source.notebook is None:
            comments += [Unread(path, one.wrong, one.line) for one in ignoring if one.wrong]
        rules = tuple(rule for rule in rules if rule.concerns(source.text))
        if not rules:
            return []
        module = _parsed(path, source, project, unread)
    except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        unread.append(_failure(path, error))
        return []
    remarks, failure = _checked(module, rules)
    if failure:
        unread.append(Unread(path, failure))
    return list(_placed(path, source, _without_ignored(remarks, source.text, ignoring)))


def _failure(path: Path, error: Exception) -> Unread:
    if isinstance(error, Unreadable):
        return Unread(path, str(error))
    if isinstance(error, SyntaxError):
        return Unread(path, f"{_NOT_PARSED}: {error.msg}", error.lineno or 0)
    reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
    return Unread(path, f"{_NOT_PARSED}: {reason}")


def _parsed(path: Path, source: Source, project: Project, unread: list[Unread]) -> Module:
    if source.notebook is not None:
        return _notebook(path, source.notebook, project, unread)
    return Module(_tree(source), source.text, path, project)


def _tree(source: Source) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are for others to say
        return ast.parse(source.text)


def _notebook(path: Path, notebook: Notebook, project: Project, unread: list[Unread]) -> Module:
    """Parse the cells together; where that fails, without those that do not parse alone."""
    text = notebook.text
    try:
        return Module(parse(text), text, path, project)
    except SyntaxError:
        sound = []
        for cell in notebook.cells:
            try:
                parse(cell.code)
                sound.append(cell)
            except SyntaxError as error:
                reason = f"{_NOT_PARSED}: {error.msg}"
                unread.append(Unread(path, reason, error.lineno or 0, cell.number))
        text = text_of(sound)
        return Module(parse(text), text, path, project)


def _checked(module: Module, rules: tuple[Rule, ...]) -> tuple[list[Remark], str]:
    remarks: list[Remark] = []
    failure = ""
    for rule in rules:
        try:
            remarks += rule.remarks(module)
        except Exception as error:  # one rule must not cost the reader the others
            what = "nested too deeply" if isinstance(error, RecursionError) else repr(error)
            failure = f"not checked for {rule.id}: {what}"
    return sorted(remarks, key=lambda each: (each.line, each.column, each.id)), failure


def _placed(path: Path, source: Source, remarks: Iterable[Remark]) -> Iterator[PlacedRemark]:
    for remark in remarks:
        if source.notebook is None:
            yield PlacedRemark(path, remark)
            continue
        cell, line = cell_and_line(remark.line)
        last = line + remark.last_line - remark.line
        yield PlacedRemark(path, replace(remark, line=line, last_line=last), cell)


def shown_path(path: Path) -> str:
    """Return a path as it is reported: relative to the current folder where it lies in it."""
    absolute, here = os.path.abspath(path), os.getcwd()
    inside = os.path.commonpath([absolute, here]) == here
    shown = os.path.relpath(absolute, here) if inside else absolute
    return shown.encode("utf-8", "replace").decode()


def _comments(source: str) -> tuple[Comment, ...]:
    """Return the comments that are to ignore findings."""
    if "trainperf:" not in source:
        return ()
    from trainperf.report.ignored import comments  # it loads the catalogue

    return comments(source.encode("utf-8", "replace"))


def _without_ignored(
    remarks: Iterable[Remark], source: str, comments: Sequence[Comment]
) -> list[Remark]:
    """Return the remarks that no comment of `source` turns off.

    A comment counts on any line of the place, or on a line of its own right above it.
    """
    lines = source.split("\n")

    def ignored(remark: Remark) -> bool:
        first = remark.line - 1
        while first > 0 and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return any(
            (each.ids is None or remark.id in each.ids)
            and (
                remark.line <= each.line <= remark.last_line
                or (each.alone and first < each.line < remark.line)
            )
            for each in comments
        )

    return [remark for remark in remarks if not ignored(remark)]


class _Checked:
    """The files that are checked, for `Project`: nothing outside of what was named is looked at."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = {os.path.abspath(path): path for path in paths if path.suffix == ".py"}

    def data(self, path: str) -> bytes | None:
        return b"" if path in self._paths else None

    def module(self, path: str) -> Module | None:
        try:
            source = _read(self._paths[path])
            return None if source is None else Module(_tree(source), source.text)
        except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # it is said of the file itself


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return one instance of every rule, in order of their ids."""
    found = discovered(rules.__name__, rules.__path__, Rule)
    return tuple(sorted(found, key=lambda rule: rule.id))


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that are named, and those in the folders that are, each once.

    In folders: `.py` and `.ipynb`; not in hidden folders, `_SKIPPED`, or environments.
    Links to folders are not followed.
    """
    seen: set[str] = set()
    for path in paths:
        for each in _in_folder(path) if path.is_dir() else (path,):
            name = os.path.abspath(each)
            if name not in seen:
                seen.add(name)
                yield each


def _in_folder(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(
            each
            for each in folders
            if each not in _SKIPPED
            and not each.startswith(".")
            and not os.path.exists(os.path.join(here, each, "pyvenv.cfg"))
        )
        for name in sorted(names):
            path = Path(here, name)
            if name.endswith((".py", ".ipynb")) and not name.startswith(".") and path.is_file():
                yield path


def _read(path: Path) -> Source | None:
    """Return the source of a file; None where no framework is named in it.

    Raises `Unreadable`.
    """
    if not path.is_file() and path.exists():  # a pipe would be waited for
        raise Unreadable("is no regular file")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1) if not is_notebook(path.name) else file.read()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    if not any(word in data for word in _FRAMEWORKS):
        return None
    if is_notebook(path.name):
        return _notebook_source(data)
    if len(data) > LARGEST:
        raise Unreadable(f"larger than {LARGEST // 1_000_000} MB")
    return Source(_text(data))


def _text(data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise Unreadable(f"not text: {error}") from error


def _notebook_source(data: bytes) -> Source:
    try:
        notebook = Notebook(data)
    except NotANotebook as error:
        raise Unreadable(str(error)) from error
    return Source(notebook.text, notebook)
