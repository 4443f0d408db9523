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
    """One such comment. `ids` is None for all findings; `wrong` says why it ignores nothing."""

    line: int
    ids: frozenset[str] | None
    wrong: str = ""


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
    paths = dict.fromkeys(site.file for finding in findings for site in finding.where)
    files = {path: Lines(path, _source(path, read_source)) for path in paths}
    kept, ignored, notes = [], [], []
    for finding in findings:
        found = [files[site.file].comment(finding.id, site) for site in finding.where]
        covering = [comment for comment in found if comment is not None]
        if covering and len(covering) == len(found):
            ignored.append(Ignored(finding, covering[0]))
            continue
        kept.append(finding)
        if covering:
            bare = next(site for site, by in zip(finding.where, found, strict=True) if by is None)
            notes.append(
                f"{finding.id} is ignored at {place(covering[0], cwd)}, but not at "
                f"{place(bare, cwd)}: it is reported"
            )
    notes += [
        f"{place(Site(path, comment.line), cwd)}: {comment.wrong}"
        for path, lines in files.items()
        for comment in lines.comments
        if comment.wrong
    ]
    return Suppressed(tuple(kept), tuple(ignored), tuple(dict.fromkeys(notes)))


def said(ignored: Iterable[Ignored], cwd: str = "") -> str:
    """Return what to say of what is ignored, in a sentence; nothing for nothing."""
    told = [f"{one.finding.id} ({place(one.comment, cwd)})" for one in ignored]
    if not told:
        return ""
    are = "1 finding is" if len(told) == 1 else f"{len(told)} findings are"
    return f"{are} ignored in the source: {', '.join(told)}."


class Lines:
    """The comments of one file's Python source, by where they apply."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self.comments = tuple(_comments(source)) if b"trainperf:" in source else ()
        lines = source.split(b"\n") if self.comments else []
        self._bare = {n for n, line in enumerate(lines, 1) if line.lstrip().startswith(b"#")}

    def comment(self, id_: str, site: Site) -> Site | None:
        """Where the comment stands that says to ignore `id_` at `site`, if there is one."""
        first = site.line
        while first - 1 in self._bare:
            first -= 1
        for comment in self.comments:
            here = first <= comment.line <= max(site.end_line, site.line)
            if here and (comment.ids is None or id_ in comment.ids):
                return Site(self._path, comment.line)
        return None


def _source(path: str, read_source: Callable[[str], bytes]) -> bytes:
    try:
        return as_run(path, read_source(path))
    except (OSError, ValueError):
        return b""


def _comments(source: bytes) -> Iterator[Comment]:
    """The comments to ignore findings in Python source, as far as it is Python."""
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if token.type == tokenize.COMMENT:
                for match in _COMMENT.finditer(token.string):
                    yield _comment(token.start[0], match[1])
    except (tokenize.TokenError, SyntaxError, ValueError):
        return  # what came until then holds


def _comment(line: int, listed: str | None) -> Comment:
    if listed is None:
        return Comment(line, None)
    ids = {id_.strip().replace("-", "_") for id_ in listed.strip("[]").split(",")} - {""}
    if not listed.endswith("]") or not ids:
        why = "it names no finding" if listed.endswith("]") else "`]` is missing"
        text = f"`# trainperf: ignore{listed}` ignores nothing: {why}"
        return Comment(line, frozenset(), text)
    wrong = ""
    for unknown in sorted(ids - by_id().keys())[:1]:
        near = difflib.get_close_matches(unknown, by_id(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ", which `trainperf explain` lists"
        wrong = f"{unknown} is no id of a finding{hint}"
    return Comment(line, frozenset(ids), wrong)
