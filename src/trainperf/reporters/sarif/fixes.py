"""The edits of a patch as `fixes` of SARIF results."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainperf.model import Diagnosis, Finding, Patch
from trainperf.report.plain import plain

_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPED = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)
_SIGNS = {"t": "\t", "n": "\n", "r": "\r"}
_BOM = "\ufeff"
_Change = tuple[str, int, list[str], list[str]]


@dataclass(frozen=True)
class Replacement:
    """A region of a file and the text that comes in its place.

    Lines and columns count from 1, columns in characters; the end is exclusive. An empty
    region is an insertion before its start.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def replacements(diff: str) -> dict[str, tuple[Replacement, ...]]:
    """Return what a diff replaces, by file as the diff names it, in order of the lines.

    The regions are the smallest that hold each change; none overlaps another. Files with
    characters that the diff could not hold as text are left out: their columns are not known.
    """
    found: dict[str, list[Replacement]] = {}
    unknown = set()
    for path, line, old, new in _changes(diff):
        if _undecodable(old) or _undecodable(new):
            unknown.add(path)
        found.setdefault(path, []).extend(_apart(line, old, new))
    return {path: tuple(those) for path, those in found.items() if path not in unknown}


def _changes(diff: str) -> Iterator[_Change]:
    """Give each run of changed lines: file, line it starts at, its old and its new ones."""
    lines = diff.split("\n")
    path, index = "", 0
    while index < len(lines):
        line, index = lines[index], index + 1
        if line.startswith("--- "):
            path = _path(line[4:])
        ranges = _RANGES.match(line)
        if ranges is None:
            continue
        old, new = int(ranges[2] or 1), int(ranges[4] or 1)
        start = int(ranges[1]) + (ranges[2] == "0")
        body = _Body(path, start)
        while index < len(lines) and (old > 0 or new > 0 or lines[index].startswith("\\")):
            line, index = lines[index], index + 1
            old -= line[:1] in ("-", " ")
            new -= line[:1] in ("+", " ")
            yield from body.take(line)
        yield from body.end()


class _Body:
    """The lines of one hunk, gathered into runs of changed ones."""

    def __init__(self, path: str, line: int) -> None:
        self._path, self._line = path, line
        self._sides: dict[str, list[str]] = {"-": [], "+": []}
        self._last = ""

    def take(self, line: str) -> Iterator[_Change]:
        sign, text = line[:1], line[1:]
        if sign == "\\":  # the line before it ends without a line feed
            if self._last in self._sides:
                self._sides[self._last][-1] = self._sides[self._last][-1][:-1]
            return
        if sign == " ":
            yield from self.end()
            self._line += 1
        else:
            self._sides[sign].append(f"{text}\n")
        self._last = sign

    def end(self) -> Iterator[_Change]:
        old, new = self._sides["-"], self._sides["+"]
        if old or new:
            yield self._path, self._line, old, new
        self._line += len(old)
        self._sides = {"-": [], "+": []}


def _apart(line: int, old: list[str], new: list[str]) -> Iterator[Replacement]:
    """Replace line by line where as many come as go, else the lines as a whole."""
    if len(old) != len(new):
        yield _smallest(line, "".join(old), "".join(new))
        return
    for number, (one, other) in enumerate(zip(old, new, strict=True), start=line):
        if one != other:
            yield _smallest(number, one, other)


def _smallest(line: int, old: str, new: str) -> Replacement:
    """Leave out what both texts begin and end with."""
    head = _common(old, new)
    most = min(len(old), len(new)) - head
    tail = _common(old[::-1][:most], new[::-1][:most])
    start, end = _position(line, old, head), _position(line, old, len(old) - tail)
    return Replacement(*start, *end, new[head : len(new) - tail])


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _position(line: int, text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character of `text`, which begins at the start of `line`."""
    before = text[:offset]
    column = offset - (before.rfind("\n") + 1)
    marked = line == 1 and text.startswith(_BOM) and "\n" not in before
    return line + before.count("\n"), column + 1 - (marked and column > 0)


def _undecodable(lines: list[str]) -> bool:
    return any("\ud800" <= one <= "\udfff" for line in lines for one in line)


def _path(header: str) -> str:
    """Read the name of a file as `git diff` writes it, without its "a/"."""
    header = header.removesuffix("\t")
    if header.startswith('"') and header.endswith('"'):
        header = _ESCAPED.sub(_sign, header[1:-1])
    return header.removeprefix("a/")


def _sign(escaped: re.Match[str]) -> str:
    code = escaped[1]
    return chr(int(code, 8)) if len(code) == 3 else _SIGNS.get(code, code)


Json = dict[str, Any]
Edit = tuple[str, Replacement]
"""A file by its absolute path, and what is replaced in it."""


def fixes(diagnosis: Diagnosis, artifact: Callable[[str], Json]) -> dict[str, Json]:
    """Return the fix of each finding whose edits are in the patch, by its id.

    An edit belongs to the findings at whose place it stands; one that stands at none, such
    as an import, to all with a place in its file. Findings that share an edit share a fix,
    which has the edits of all of them. `artifact` writes the location of a file.
    """
    patch = diagnosis.patch
    if patch is None or not patch.diff:
        return {}
    held = [one for one in diagnosis.findings if one.id in patch.findings]
    edits = _edits(patch)
    owners = [_owners(edit, held) for edit in edits]
    found: dict[str, Json] = {}
    for group in _groups([one.id for one in held], owners):
        its = [edit for edit, ids in zip(edits, owners, strict=True) if ids & group]
        if its:
            titles = [one.title for one in held if one.id in group]
            found |= dict.fromkeys(group, _fix(titles, its, artifact))
    return found


def _edits(patch: Patch) -> list[Edit]:
    return [
        (os.path.normpath(os.path.join(patch.root, path)), one)
        for path, those in replacements(patch.diff).items()
        for one in those
    ]


def _owners(edit: Edit, held: Sequence[Finding]) -> frozenset[str]:
    file, region = edit
    sites = [(one.id, site) for one in held for site in one.where if _same(site.file, file)]
    there = {
        id_
        for id_, site in sites
        if site.line <= _last_line(region) and region.line <= max(site.line, site.end_line)
    }
    return frozenset(there or {id_ for id_, _ in sites} or {one.id for one in held})


def _last_line(region: Replacement) -> int:
    ends_before = region.end_column == 1 and region.end_line > region.line
    return region.end_line - ends_before


def _same(file: str, other: str) -> bool:
    return os.path.normpath(file) == other


def _groups(ids: Sequence[str], owners: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Put ids together that own an edit together."""
    groups = [frozenset({id_}) for id_ in dict.fromkeys(ids)]
    for those in owners:
        joined = frozenset().union(*(one for one in groups if one & those))
        groups = [*(one for one in groups if not one & those), joined]
    return [one for one in groups if one]


def _fix(titles: Sequence[str], edits: Sequence[Edit], artifact: Callable[[str], Json]) -> Json:
    what = plain("; ".join(titles))
    together = f"these {len(titles)} go together: {what}" if len(titles) > 1 else what
    files = dict.fromkeys(file for file, _ in edits)
    return {
        "description": {"text": together.replace("](", "] (")},
        "artifactChanges": [
            {
                "artifactLocation": artifact(file),
                "replacements": [replaced(one) for each, one in edits if each == file],
            }
            for file in files
        ],
    }


def replaced(one: Replacement) -> Json:
    """Write one replacement."""
    region = {"startLine": one.line, "startColumn": one.column}
    region |= {"endLine": one.end_line, "endColumn": one.end_column}
    made: Json = {"deletedRegion": region}
    return made | ({"insertedContent": {"text": one.text}} if one.text else {})
