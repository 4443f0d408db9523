"""Files checked by rules: their remarks, and the files that could not be read."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.lint.files import Source, Unreadable, find, read
from trainperf.lint.ignored import without_ignored, wrong_comments
from trainperf.lint.project import Project
from trainperf.recording.cells import cell_and_line
from trainperf.source.module import Module
from trainperf.source.notebooks.ipython import parse
from trainperf.source.notebooks.notebook import Notebook, text_of
from trainperf.source.rule import Remark, Rule

_NOT_PARSED = "does not parse as Python {}.{}".format(*sys.version_info)


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
    project = Project(found)
    for path in found:
        try:
            seen += _file(path, rules, project, comments, unread)
        except _Failed as failed:
            unread.append(failed.unread)
    return Lint(tuple(seen), tuple(unread), len(found), tuple(comments))


class _Failed(Exception):  # noqa: N818 - carries an outcome
    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.reason)
        self.unread = unread


def _file(
    path: Path,
    rules: tuple[Rule, ...],
    project: Project,
    comments: list[Unread],
    unread: list[Unread],
) -> list[PlacedRemark]:
    try:
        source = read(path)
        if source is None:
            return []
        if source.notebook is None:
            comments += [Unread(path, why, line) for line, why in wrong_comments(source.text)]
        rules = tuple(rule for rule in rules if rule.concerns(source.text))
        if not rules:
            return []
        module = _parsed(path, source, project, unread)
    except Unreadable as error:
        raise _Failed(Unread(path, str(error))) from error
    except SyntaxError as error:
        line = error.lineno or 0
        raise _Failed(Unread(path, f"{_NOT_PARSED}: {error.msg}", line)) from error
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "nested too deeply" if not isinstance(error, ValueError) else str(error)
        raise _Failed(Unread(path, f"{_NOT_PARSED}: {reason}")) from error
    remarks, failure = _checked(module, rules)
    if failure:
        unread.append(Unread(path, failure))
    return _placed(path, source, without_ignored(remarks, source.text))


def _parsed(path: Path, source: Source, project: Project, unread: list[Unread]) -> Module:
    if source.notebook is not None:
        return _notebook(path, source.notebook, project, unread)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are for others to say
        return Module(ast.parse(source.text), source.text, path, project)


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


def _placed(path: Path, source: Source, remarks: Iterable[Remark]) -> list[PlacedRemark]:
    return list(_in_cells(path, source, remarks))


def _in_cells(path: Path, source: Source, remarks: Iterable[Remark]) -> Iterator[PlacedRemark]:
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
