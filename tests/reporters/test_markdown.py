"""The Markdown report says what it should, and is no longer than a comment may be."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest

from reporters.samples import (
    ALL_OUTCOMES,
    INPUT_BOUND,
    TRIED,
)
from reporters.test_every_report import tokens
from trainperf.model import Patch
from trainperf.report.level import Judgement
from trainperf.reporters.markdown import COMMENT_LIMIT, marked, render


def shown(page: str) -> str:
    """The text that a reader sees outside of code."""
    return " ".join(token.content for token in tokens(page) if token.type == "text")


def test_a_short_report_stands_open_and_the_rest_is_folded() -> None:
    open_, folded = html.unescape(render(TRIED)).split("<details>", 1)
    assert "The same work is done again in every epoch**" in open_
    assert "3.2× as fast, measured (2.8 to 3.5); predicted at most 4.5×" in open_
    assert "Apply these 2 changes" in open_
    assert "- tf_cache: 3.2× (2.8 to 3.5), at most 4.5× predicted; mean losses within 7 %" in folded
    assert "Input pipeline" in folded


def test_what_makes_the_check_fail_is_named() -> None:
    judged = render(TRIED, judgement=Judgement(2.0, ("it is 12 % slower",)))
    failing = judged.split("**Why the check fails**")[1].split("\n\n")[1]
    assert len(failing.split("\n")) == 3  # the stack is worth it, and has two
    assert "- it is 12 % slower" in failing
    assert "Why the check fails" not in render(TRIED)


def test_options_of_the_command_are_a_patch_without_edits() -> None:
    patch = Patch("", ("torch_autocast",), arguments=("--bf16", "True"))
    page = render(replace(INPUT_BOUND, command=("python", "a.py"), patch=patch))
    assert "python a.py --bf16 True" in page
    assert "0 edits" not in page


@pytest.mark.parametrize("name", ["a|b", "<b>", "*a*", "x_y", "_x", "[a](b)", "a&amp;b", "\\", "#"])
def test_an_escaped_name_reads_as_it_was(name: str) -> None:
    assert shown(marked.inline(name)) == name


def test_code_stays_code() -> None:
    spans = tokens(marked.inline("run `f(x)` on 3 cores"))
    assert [one.content for one in spans if one.type == "code_inline"] == ["f(x)"]
    source = "````\n```\n</details>"
    (fence,) = [one for one in tokens(marked.fenced(source, "python")) if one.type == "fence"]
    assert (fence.content, fence.markup) == (f"{source}\n", "`````")


def test_what_is_too_long_loses_its_patch_then_its_details_then_all_but_the_verdict() -> None:
    long = replace(INPUT_BOUND, patch=Patch("+x\n" * 40_000, ("tf_map_parallel",)))
    page = render(long)
    assert len(page.encode()) <= COMMENT_LIMIT
    assert "Left out to keep this short: the patch." in page
    assert "<details>" in page
    assert "+x" not in page
    page = render(INPUT_BOUND, limit=2500)
    assert "the details and the patch" in page
    assert "<details>" not in page
    assert "What to change" in page
    assert "all but the verdict" in render(INPUT_BOUND, limit=800)
    for limit in (0, 1, 50, 300, 800):
        assert len(render(ALL_OUTCOMES, limit=limit).encode()) <= limit
