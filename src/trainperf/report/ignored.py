"""Findings that a comment in the source says to leave out.

    loss.item()  # trainperf: ignore[torch_step_logging]

`ignore[ID, ID]` names findings, `ignore` alone means all. The comment stands on a line of
the finding's place, or on a line of its own right above it.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trainperf.model import Finding, Site
from trainperf.model.diagnosis import Ignored
from trainperf.report.plain import place
from trainperf.source.notebooks.notebook import as_run

_COMMENT = re.compile(r"#\s*trainperf:\s*ignore(?![\w-])\s*(\[[^\]#]*\]?)?")


@dataclass(frozen=True)
class Suppressed:
    """The findings without those that are ignored, those, and what is ignored in part only."""

    kept: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]
    notes: tuple[str, ...]


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
    files = {path: Comments(_source(path, read_source)) for path in paths}
    kept, ignored, notes = [], [], []
    for finding in findings:
        lines = {site: files[site.file].covering(finding.id, site) for site in finding.where}
        covered = [Site(site.file, line) for site, line in lines.items() if line]
        if covered and all(lines.values()):
            ignored.append(Ignored(finding, covered[0]))
            continue
        kept.append(finding)
        if covered:
            bare = next(site for site, line in lines.items() if not line)
            notes.append(
                f"{finding.id} is ignored at {place(covered[0], cwd)}, but not at "
                f"{place(bare, cwd)}: it is reported"
            )
    return Suppressed(tuple(kept), tuple(ignored), tuple(dict.fromkeys(notes)))


def said(ignored: Iterable[Ignored], cwd: str = "") -> str:
    """Return what to say of what is ignored, in a sentence; nothing for nothing."""
    told = [f"{one.finding.id} ({place(one.comment, cwd)})" for one in ignored]
    are = "1 finding is" if len(told) == 1 else f"{len(told)} findings are"
    return f"{are} ignored in the source: {', '.join(told)}." if told else ""


class Comments:
    """The comments of one file's Python source that ignore findings, by where they apply."""

    def __init__(self, source: bytes) -> None:
        self._found = dict(_comments(source)) if b"trainperf:" in source else {}
        lines = source.split(b"\n") if self._found else []
        self._bare = {n for n, line in enumerate(lines, 1) if line.lstrip().startswith(b"#")}

    def covering(self, id_: str, site: Site) -> int:
        """The line of the comment that says to ignore `id_` at `site`; 0 if there is none."""
        first = site.line
        while first - 1 in self._bare:
            first -= 1
        for line, ids in self._found.items():
            if first <= line <= max(site.end_line, site.line) and (ids is None or id_ in ids):
                return line
        return 0


def _source(path: str, read_source: Callable[[str], bytes]) -> bytes:
    try:
        return as_run(path, read_source(path))
    except (OSError, ValueError):
        return b""


def _comments(source: bytes) -> Iterator[tuple[int, set[str] | None]]:
    """The lines of the comments with the ids that each lists, None for all of them."""
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            found = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if found and (listed := found[1]) is None:
                yield token.start[0], None
            elif found and listed.endswith("]"):
                ids = listed.strip("[]").replace("-", "_").split(",")
                yield token.start[0], {id_.strip() for id_ in ids}
    except (tokenize.TokenError, SyntaxError, ValueError):
        return  # what came until then holds
