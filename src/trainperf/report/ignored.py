"""Findings that a comment in the source says to leave out.

    loss.item()  # trainperf: ignore[torch_step_logging]

`ignore[ID, ID]` names findings, `ignore` alone means all. The comment stands on a line of
the finding's place, or on a line of its own right above it.
"""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trainperf.fixes import by_id
from trainperf.model import Finding, Site
from trainperf.model.diagnosis import Ignored
from trainperf.report.plain import place
from trainperf.source.notebooks.notebook import as_run

_COMMENT = re.compile(r"#\s*trainperf:\s*ignore(?![\w-])\s*(\[[^\]#]*\]?)?")


@dataclass(frozen=True)
class Suppressed:
    """The findings without those that are ignored, those, and what to say of the comments."""

    kept: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comment:
    """One such comment. `ids` is None for all findings; `alone`: no code on its line."""

    line: int
    ids: frozenset[str] | None
    alone: bool
    wrong: str = ""  # what is wrong with it


def suppressed(
    findings: Iterable[Finding], read_source: Callable[[str], bytes], cwd: str = ""
) -> Suppressed:
    """Take out the findings that the source says to ignore.

    `read_source` returns the bytes of a file by its path; a file for which it raises
    `OSError` or `ValueError` ignores nothing. A finding with several places is ignored
    where there is a comment for each of them: one that is new must not hide behind an
    old one. Notes name files relative to `cwd`.
    """
    findings = tuple(findings)
    paths = dict.fromkeys(site.file for one in findings for site in one.where)
    files = {path: Lines(path, _source(path, read_source)) for path in paths}
    kept, ignored, notes = [], [], []
    for finding in findings:
        found = [files[site.file].comment(finding.id, site) for site in finding.where]
        covering = [one for one in found if one is not None]
        if covering and len(covering) == len(found):
            ignored.append(Ignored(finding, covering[0]))
            continue
        kept.append(finding)
        if covering:
            bare = [site for site, one in zip(finding.where, found, strict=True) if one is None]
            notes.append(
                f"{finding.id} is ignored at {_at(covering, cwd)}, but not at {_at(bare, cwd)}: "
                "it is reported"
            )
    for path, lines in files.items():
        for comment in lines.comments:
            if comment.wrong:
                notes.append(f"{_at([Site(path, comment.line)], cwd)}: {comment.wrong}")
    return Suppressed(tuple(kept), tuple(ignored), tuple(dict.fromkeys(notes)))


def said(ignored: Iterable[Ignored], cwd: str = "") -> str:
    """Return what to say of what is ignored, in a sentence; nothing for nothing."""
    told = [f"{one.finding.id} ({_at([one.comment], cwd)})" for one in ignored]
    if not told:
        return ""
    are = "1 finding is" if len(told) == 1 else f"{len(told)} findings are"
    return f"{are} ignored in the source: {', '.join(told)}."


def comments(source: bytes) -> tuple[Comment, ...]:
    """Return the comments to ignore findings in Python source, as far as it is Python."""
    found: list[tuple[int, re.Match[str]]] = []
    code: set[int] = set()
    for token in _tokens(source):
        if token.type == tokenize.COMMENT:
            found.extend((token.start[0], match) for match in _COMMENT.finditer(token.string))
        elif token.type not in _BLANK and token.string.strip():
            code.update(range(token.start[0], token.end[0] + 1))
    return tuple(_comment(line, match[1], line not in code) for line, match in found)


_BLANK = (
    *(tokenize.ENCODING, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)


def _tokens(source: bytes) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.tokenize(io.BytesIO(source).readline)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return  # what came until then holds


def _comment(line: int, listed: str | None, alone: bool) -> Comment:
    if listed is None:
        return Comment(line, None, alone)
    shown = f"`# trainperf: ignore{listed}`"
    if not listed.endswith("]"):
        return Comment(line, frozenset(), alone, f"{shown} ignores nothing: `]` is missing")
    ids = [one.strip().replace("-", "_") for one in listed.strip("[]").split(",") if one.strip()]
    if not ids:
        return Comment(line, frozenset(), alone, f"{shown} ignores nothing: it names no finding")
    unknown = [one for one in ids if one not in by_id()]
    wrong = ""
    if unknown:
        near = difflib.get_close_matches(unknown[0], by_id(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ", which `trainperf explain` lists"
        what = "is no id of a finding" if len(unknown) == 1 else "are no ids of findings"
        wrong = f"{', '.join(unknown)} {what}{hint}"
    return Comment(line, frozenset(ids), alone, wrong)


def _source(path: str, read_source: Callable[[str], bytes]) -> bytes:
    try:
        return as_run(path, read_source(path))
    except (OSError, ValueError):
        return b""


class Lines:
    """The comments of one file's Python source, by where they apply."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self.comments = comments(source) if b"trainperf:" in source else ()
        self._bare = _comment_lines(source) if self.comments else frozenset()

    def comment(self, id_: str, site: Site) -> Site | None:
        """Where the comment stands that says to ignore `id_` at `site`, if there is one."""
        above = site.line - 1
        while above in self._bare:
            above -= 1
        lines = range(site.line, max(site.end_line, site.line) + 1)
        for one in self.comments:
            here = one.line in lines or (one.alone and above < one.line < site.line)
            if here and (one.ids is None or id_ in one.ids):
                return Site(self._path, one.line)
        return None


def _comment_lines(source: bytes) -> frozenset[int]:
    """The lines that hold a comment and nothing else, so that reasons may stand there too."""
    lines = source.split(b"\n")
    return frozenset(n for n, line in enumerate(lines, start=1) if line.lstrip().startswith(b"#"))


def _at(sites: Iterable[Site], cwd: str) -> str:
    return ", ".join(dict.fromkeys(place(site, cwd) for site in sites))
