"""Source with its sites marked: `ds = ▸files.map(f)◂`, several marks give several sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Unpriced
from trainperf.model import Finding, Site
from trainperf.rewrite import Script

FILE = "train.py"


def finding_of(
    fix: Fix,
    *,
    title: str = "",
    text: str = "",
    bound: float | None = None,
    bound_basis: str = "",
    data: dict[str, Any] | None = None,
    **fields: Any,
) -> Finding:
    """A finding of a fix, with what an edit or a report of it needs."""
    cause = Cause(title, text, Unpriced(bound_basis), data=data or {}, **fields)
    return fix.found(cause, bound, bound_basis)


def marked(text: str) -> tuple[str, tuple[Site, ...]]:
    """Take the marks out of `text`; return it with the sites, in the order they open."""
    plain, open_marks, sites = "", [], {}
    for char in text:
        if char == "▸":
            open_marks.append((len(sites) + len(open_marks), plain))
        elif char == "◂":
            order, start = open_marks.pop()
            sites[order] = (start, plain)
        else:
            plain += char
    return plain, tuple(_site(*sites[order]) for order in sorted(sites))


def _site(start: str, end: str) -> Site:
    line, col = _place(start)
    end_line, end_col = _place(end)
    return Site(FILE, line, "", col, end_line, end_col)


def _place(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)


def script_of(text: str) -> tuple[Script, tuple[Site, ...]]:
    """Return a script whose one file, train.py, is `text` without its marks."""
    plain, sites = marked(text)
    return project_of({FILE: plain}), sites


def project_of(files: Mapping[str, str]) -> Script:
    """Return a script of several files, by their names."""
    there = {f"/project/{name}": marked(text)[0] for name, text in files.items()}

    def read(path: str) -> bytes:
        if path not in there:
            raise FileNotFoundError(2, "No such file or directory", path)
        return there[path].encode()

    return Script("/project", read=read)


def site_in(files: Mapping[str, str]) -> Site:
    """Return the one site that is marked in any of several files."""
    (site,) = (replace(site, file=name) for name, text in files.items() for site in marked(text)[1])
    return site


def result(script: Script) -> str | None:
    """Return the changed text of the one file, None if nothing changed."""
    return script.sources().get(f"/project/{FILE}")


def changed(script: Script) -> str:
    """Return the changed text of the one file, where something must have changed."""
    text = result(script)
    assert text is not None
    return text


def executed(source: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Run a source, its marks taken out; return the names it binds, with those it was given."""
    names = dict(given or {})
    exec(compile(source.replace("▸", "").replace("◂", ""), FILE, "exec"), names)
    return names


@dataclass(frozen=True)
class Example:
    """A rewrite as source before and after.

    `finding` is what `detect` would have returned; its sites point into `before`.
    The text `▸…◂` in `before` marks the call expression (or `def`) of a site; the
    marks are taken out before the rewrite. Several marked spans give several sites.
    """

    before: str
    after: str
    data: dict[str, Any] | None = None

    @classmethod
    def untouched(cls, source: str, data: dict[str, Any] | None = None) -> Example:
        """Return one whose code must be left alone."""
        return cls(source, unmarked(source), data)


class Append(Fix):
    """Append the call that a finding names to each of its places."""

    category = "input"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Append it."""
        for site in finding.where:
            script.append_call(site, finding.data["call"])


class Variables(Fix):
    """Set the variables that a finding names."""

    category = "environment"

    def environment(self, finding: Finding) -> dict[str, str]:
        """Those of its data."""
        return dict(finding.data)


def unmarked(source: str) -> str:
    """Return the source of an example without the marks of its sites."""
    return source.replace("▸", "").replace("◂", "")
