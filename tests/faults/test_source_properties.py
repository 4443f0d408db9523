"""Whatever bytes a source holds: `fix` changes its line and no other byte, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faults.test_properties import quick, refused
from reporters.samples import INPUT_BOUND
from rewriting import Append
from trainperf.errors import CannotRewrite, TrainperfError
from trainperf.fixes import Fix
from trainperf.model import Diagnosis, Equivalence, Finding, Site
from trainperf.patch.apply import Disk, plan
from trainperf.patch.patch import Edits
from trainperf.source.text import Source

ROOT, PATH = "/project", "/project/train.py"


FIXES: dict[str, Fix] = {"cache": Append()}
ENCODINGS = ["utf-8", "latin-1", "cp1252", "iso8859-15", "shift_jis", "gbk", "koi8-r", "utf-7"]
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0'\\"), max_size=12
)


@st.composite
def sources(draw: st.DrawFn) -> tuple[bytes, int, str, str]:
    """A source in some encoding: its bytes, the line of its call, its encoding and line ends."""
    encoding, end = draw(st.sampled_from(ENCODINGS)), draw(st.sampled_from(["\n", "\r\n", "\r"]))
    bom = encoding == "utf-8" and draw(st.booleans())
    around = draw(st.lists(texts, max_size=4))
    before = [f"s{n} = '{text}'  # {text}" for n, text in enumerate(around)]
    cookie = [f"# -*- coding: {encoding} -*-"] if encoding != "utf-8" or draw(st.booleans()) else []
    shown = [
        *cookie,
        *before,
        "ds = x.map(f)",
        *(f"# {text}" for text in draw(st.lists(texts, max_size=2))),
    ]
    text = end.join(shown) + draw(st.sampled_from(["", end, end * 2, "\f"]))
    data = text.encode(encoding, "ignore")
    return (b"\xef\xbb\xbf" if bom else b"") + data, len(cookie) + len(before) + 1, encoding, end


def diagnosed(data: bytes, line: int) -> Diagnosis:
    """A diagnosis with one edit of the call in a line of `data`."""
    site = Site(PATH, line, "", 5, line, 13)
    finding = Finding(
        "cache",
        "input",
        "",
        "",
        2.0,
        "",
        Equivalence.EXACT,
        (site,),
        rewritable=True,
        data={"call": ".cache()"},
    )
    written = Edits(ROOT, FIXES, {PATH: data}.__getitem__).write((finding,), only=("cache",))
    return replace(INPUT_BOUND, findings=(finding,), patch=written.patch)


WORDS = {
    "utf-8": "größer → 数 🙂",
    "utf-8-sig": "größer → 数 🙂",
    "latin-1": "größer",
    "cp1252": "größer „x“",
    "iso8859-15": "10 €",
    "shift_jis": "日本",
    "gbk": "中文",
    "koi8-r": "шаг",
}
encodings = pytest.mark.parametrize("encoding", WORDS)
ends = pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])


def source_in(encoding: str, end: str, lines_between: int) -> bytes:
    """A source with a word of an encoding so many lines before its call, and as many after."""
    far = end * lines_between
    word = WORDS[encoding]
    text = f"# coding: {encoding}{end}a = '{word}'{far}ds = x.map(f){far}# {word}"
    return text.encode(encoding)


@encodings
@ends
def test_a_fix_is_written_in_the_encoding_and_with_the_line_ends_of_the_file(
    encoding: str, end: str
) -> None:
    data = source_in(encoding, end, 9)
    disk = Disk({PATH: data}.__getitem__)
    (change,) = plan(diagnosed(data, 11), ("cache",), FIXES, disk).changes
    assert change.after == data.replace(b"map(f)", b"map(f).cache()")
    assert change.after != data


@settings(quick, max_examples=150)
@given(sources())
def test_a_fix_changes_its_line_and_no_other_byte_or_nothing(
    made: tuple[bytes, int, str, str],
) -> None:
    data, line, encoding, _ = made
    saved, files = diagnosed(data, line), {PATH: data}
    try:
        changes = plan(saved, ("cache",), FIXES, Disk(files.__getitem__)).changes
    except TrainperfError as error:
        refused(error)
        return
    (change,) = changes
    old, new = (text.encode(encoding) for text in ("x.map(f)", "x.map(f).cache()"))
    assert change.before == data
    assert data.count(old) == 1
    assert change.after == data.replace(old, new)


@quick
@given(st.binary(max_size=80), st.sampled_from(["train.py", "train.ipynb"]))
@example(b'{"cells": 5}', "train.ipynb")
@example(b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": 5}]}', "train.ipynb")
@example(b"# coding: rot13\nx", "train.py")
@example(b"# coding: undefined\nx", "train.py")
@example(b"(" * 300, "train.py")
def test_bytes_that_are_no_source_are_refused(data: bytes, name: str) -> None:
    try:
        source = Source(name, data)
    except CannotRewrite as error:
        refused(error)
    else:
        assert source.encode(source.text) == data
