"""Comments in the source: the findings they leave out, and those they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporters.samples import PARALLEL_MAP
from trainperf.model import Finding, Site
from trainperf.report.ignored import said, suppressed

IGNORE = "# trainperf: ignore"


def finding(*sites: Site, id_: str = "tf_cache") -> Finding:
    return replace(PARALLEL_MAP, id=id_, where=sites)


def ignored(source: str | bytes, line: int, end_line: int = 0, id_: str = "tf_cache") -> bool:
    data = source.encode() if isinstance(source, str) else source
    site = Site("/w/a.py", line, end_line=end_line)
    found = suppressed((finding(site, id_=id_),), lambda path: data)
    assert len(found.kept) + len(found.ignored) == 1
    return bool(found.ignored)


KEPT = {
    "no comment": "x = 1\n",
    "another line": f"x = 1\ny = 2  {IGNORE}\n",
    "the line above, with code": f"y = 2  {IGNORE}\nx = 1\n",
    "the line above the line above": f"{IGNORE}\n\nx = 1\n",
    "another id": f"x = 1  {IGNORE}[tf_interleave_parallel]\n",
    "an id that is no id": f"x = 1  {IGNORE}[tf_cach]\n",
    "an empty list": f"x = 1  {IGNORE}[]\n",
    "a list without an end": f"x = 1  {IGNORE}[tf_cache\n",
    "in a long string": f'x = """\n{IGNORE}\n"""\n',
    "a word made of it": "x = 1  # trainperf: ignore-file\n",
    "another tool": "x = 1  # mypy: ignore[tf_cache]\n",
    "no Python": "x = (\n'''\n",
    "no text": "x = '\udce9'  # trainperf: ignore\n".encode("utf-8", "surrogateescape"),
}
OUT = {
    "bare": f"x = 1  {IGNORE}\n",
    "its id": f"x = 1  {IGNORE}[tf_cache]\n",
    "one of several": f"x = 1  {IGNORE}[ tf_interleave_parallel , tf_cache ]\n",
    "behind another comment": f"x = 1  # noqa: E501  {IGNORE}[tf_cache]\n",
    "with a reason": f"x = 1  {IGNORE} because it is small\n",
    "Windows": f"x = 1  {IGNORE}[tf_cache]\r\n",
    "no newline at the end": f"x = 1  {IGNORE}[tf_cache]",
    "a mark at the start": f"\ufeffx = 1  {IGNORE}[tf_cache]\n",
    "Python only up to there": f"x = 1  {IGNORE}[tf_cache]\ny = (\n",
}


@pytest.mark.parametrize("name", KEPT)
def test_is_reported(name: str) -> None:
    lines = {"another line": 1, "the line above, with code": 2, "the line above the line above": 3}
    line = {"in a long string": 2}.get(name, lines.get(name, 1))
    assert not ignored(KEPT[name], line)


@pytest.mark.parametrize("name", OUT)
def test_is_left_out(name: str) -> None:
    assert ignored(OUT[name], 1)


def test_the_encoding_of_the_source_is_kept_to() -> None:
    assert ignored(f"# coding: latin-1\nx = 'é'  {IGNORE}\n".encode("latin-1"), 2)


def test_lines_of_nothing_but_comments_right_above_count() -> None:
    source = f"y = 2\n  {IGNORE}[tf_cache]\n  # it is small\nx = 1\n"
    assert ignored(source, 4)
    assert not ignored(source, 1)


def test_any_line_of_the_call_counts_and_none_behind_it() -> None:
    lines = ["f(", "    a,", ")", "g()"]
    for line in range(4):
        marked = [each + (f"  {IGNORE}" if i == line else "") for i, each in enumerate(lines)]
        assert ignored("\n".join(marked), 1, end_line=3) == (line < 3)


def read(path: str) -> bytes:
    return {
        "/w/a.py": f"a()  {IGNORE}[tf_cache]\nb()\nc()  {IGNORE}\n".encode(),
    }[path]


def test_a_finding_with_several_places_needs_a_comment_for_each() -> None:
    covered, partly = finding(Site("/w/a.py", 1), Site("/w/a.py", 3)), finding(
        Site("/w/a.py", 1), Site("/w/a.py", 2), id_="tf_cache"
    )  # fmt: skip
    found = suppressed((covered, partly), read, cwd="/w")
    assert [one.finding for one in found.ignored] == [covered]
    assert found.kept == (partly,)
    assert found.notes == ("tf_cache is ignored at a.py:1, but not at a.py:2: it is reported",)


def test_where_the_comment_stands_is_kept_with_the_finding() -> None:
    source = f"{IGNORE}\nx = 1\n".encode()
    (one,) = suppressed((finding(Site("/w/a.py", 2)),), lambda path: source).ignored
    assert one.comment == Site("/w/a.py", 1)


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("embedded null byte")])
def test_a_file_that_cannot_be_read_ignores_nothing(error: Exception) -> None:
    def fail(path: str) -> bytes:
        raise error

    assert suppressed((finding(Site("/w/gone.py", 1)),), fail).kept


def test_it_is_said_in_one_sentence() -> None:
    found = suppressed((finding(Site("/w/a.py", 1)), finding(Site("/w/a.py", 3))), read, "/w")
    told = "2 findings are ignored in the source: tf_cache (a.py:1), tf_cache (a.py:3)."
    assert said(found.ignored, "/w") == told
    assert said((), "/w") == ""


def test_a_comment_in_a_cell_counts_and_is_named_by_it() -> None:
    source = b'{"cells": [{"cell_type": "code", "source": "f()  # trainperf: ignore"}]}'
    site = Site("/w/a.ipynb", 1001)
    found = suppressed((finding(site),), lambda path: source)
    assert [one.comment for one in found.ignored] == [site]
    assert "(cell 1, line 1)" in said(found.ignored)
