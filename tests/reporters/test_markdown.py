"""The Markdown report says what it should, and nothing in it does anything."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from reporters.hostile import NAMES, named
from reporters.samples import SAMPLES
from reporters.samples_observed import FAILED, HEALTHY, INPUT_BOUND, PARALLEL_MAP
from reporters.samples_tried import ALL_OUTCOMES
from trainperf.model import Cost, Patch, Price, Site
from trainperf.model.diagnosis import Ignored
from trainperf.report.level import Judgement
from trainperf.reporters.markdown import COMMENT_LIMIT, render
from trainperf.reporters.markdown import marked as _marked

OURS = re.compile(r"</?(?:details|summary|code|sub)>")


def tokens(text: str) -> Iterator[Token]:
    """The tokens that GitHub's parser would see."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for token in parser.parse(text):
        yield token
        yield from token.children or ()


def shown(text: str) -> str:
    """The text that a reader sees outside of code."""
    return " ".join(token.content for token in tokens(text) if token.type == "text")


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_has_its_verdict_and_its_times(name: str) -> None:
    text = render(SAMPLES[name])
    assert text.startswith("## trainperf: ")
    assert "| A step as it is |" in text
    assert len(text.encode()) <= COMMENT_LIMIT


def test_a_finding_has_bound_measured_interval_outcome_and_place() -> None:
    text = render(ALL_OUTCOMES)
    row = next(line for line in text.split("\n") if line.startswith("| Keep the decoded"))
    assert "`tf_cache`" in row
    assert "| 3.1× | 1.92× (1.88 to 1.97) | kept |" in row
    assert "`train.py:31 in make_dataset and 1 more`" in row


def test_what_an_epoch_costs_is_told_where_a_price_is_known() -> None:
    known = Cost(Price(1.2, "--price-per-hour"), 1, 0.049, 0.021, 0.84, 0.36)
    report = render(replace(INPUT_BOUND, cost=known))
    told = "an epoch $0.84 → $0.36, a million samples $0.049 → $0.021."
    assert told in html.unescape(report)
    assert "Cost:" not in render(replace(INPUT_BOUND, cost=None))


def test_what_trying_disproved_is_told_although_no_finding_is_left() -> None:
    text = render(replace(ALL_OUTCOMES, findings=()))
    assert "### Tried" in text
    assert "| `tf_cache` | 3.1× | 1.92× (1.88 to 1.97) | kept |" in text
    assert "| `keras_xla` | 1.27× | not measured | failed: InvalidArgumentError" in text
    assert "`keras_jit_layers` |" not in text  # it was not tried
    assert "### Tried" not in render(INPUT_BOUND)


def test_what_was_not_measured_is_not_a_number() -> None:
    assert "| not measured | not measured | not measured | not measured |" in render(FAILED)
    assert "| not measured | not tried |" in render(INPUT_BOUND)


def test_what_makes_the_check_fail_is_marked() -> None:
    judged = render(ALL_OUTCOMES, judgement=Judgement(2.0, ("it is 12 % slower",)))
    rows = [line for line in judged.split("\n") if "**fails the check**" in line]
    assert len(rows) == 2  # the stack is worth it, and has two
    assert "- it is 12 % slower" in judged
    assert "fails the check" not in render(ALL_OUTCOMES)


def test_a_healthy_run_has_no_table_of_findings() -> None:
    assert "What to change" not in render(HEALTHY)


def test_what_is_ignored_is_told_in_one_line() -> None:
    ignored = (Ignored(PARALLEL_MAP, Site(f"{INPUT_BOUND.cwd}/train.py", 31)),)
    text = shown(render(replace(INPUT_BOUND, findings=(), ignored=ignored)))
    assert "1 finding is ignored in the source: tf_map_parallel (train.py:31)." in text


def test_the_last_output_of_a_script_that_failed_is_there() -> None:
    assert "TypeError: build() got" in render(FAILED)


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_stays_a_name(name: str) -> None:
    text = render(named(name), judgement=Judgement("any", (name,)))
    seen = list(tokens(text))
    for token in seen:
        assert token.type not in (
            "link_open",
            "image",
            "em_open",
            "s_open",
            "hr",
            "blockquote_open",
        )
        if token.type in ("html_inline", "html_block"):
            assert "<" not in OURS.sub("", token.content)
        if token.type == "text":
            assert not re.search(r"@\w|#\d|GH-\d|://|www\.", token.content, re.IGNORECASE)
    kinds = [token.type for token in seen]
    harmless = [
        token.type for token in tokens(render(named("x"), judgement=Judgement("any", ("x",))))
    ]
    assert kinds.count("td_open") == harmless.count("td_open") > 4 + 2 * 5
    assert {token.tag for token in seen if token.type == "heading_open"} == {"h2", "h3"}
    assert kinds.count("heading_open") == 3
    assert kinds.count("table_open") == harmless.count("table_open") > 2
    assert kinds.count("fence") == 5  # three snippets, the patch, the environment
    # problems, practices, where the time goes, not measured, notes
    assert kinds.count("bullet_list_open") == harmless.count("bullet_list_open") >= 5
    assert kinds.count("ordered_list_open") == 0
    blocks = "".join(token.content for token in seen if token.type == "html_block")
    assert blocks.count("<details>") == blocks.count("</details>") == 7


@pytest.mark.parametrize("name", ["a|b", "<b>", "*a*", "x_y", "_x", "[a](b)", "a&amp;b", "\\", "#"])
def test_an_escaped_name_reads_as_it_was(name: str) -> None:
    assert shown(_marked.inline(name)) == name


def test_names_in_backticks_become_code() -> None:
    spans = [
        t.content
        for t in tokens(_marked.inline("run `f(x)` on 3 cores"))
        if t.type == "code_inline"
    ]
    assert spans == ["f(x)"]


def test_a_fence_is_longer_than_any_in_what_it_holds() -> None:
    source = "````\n```\n</details>"
    fence = next(
        token for token in tokens(_marked.fenced(source, "python")) if token.type == "fence"
    )
    assert fence.content == f"{source}\n"
    assert fence.markup == "`````"


def test_what_is_too_long_loses_its_patch_first_and_says_so() -> None:
    long = replace(INPUT_BOUND, patch=Patch("+x\n" * 40_000, ("tf_map_parallel",)))
    text = render(long)
    assert len(text.encode()) <= COMMENT_LIMIT
    assert "Left out to keep this short: the patch." in text
    assert "<details>" in text
    assert "+x" not in text


def test_then_it_loses_the_details_and_then_all_but_the_verdict() -> None:
    text = render(INPUT_BOUND, limit=2500)
    assert "the details and the patch" in text
    assert "<details>" not in text
    assert "What to change" in text
    least = render(INPUT_BOUND, limit=800)
    assert len(least.encode()) <= 800
    assert "all but the verdict" in least
    assert "Input-bound" in least


@pytest.mark.parametrize("limit", [0, 1, 50, 300])
def test_no_limit_is_exceeded(limit: int) -> None:
    assert len(render(ALL_OUTCOMES, limit=limit).encode()) <= limit


def test_a_change_of_the_command_alone_is_no_patch_of_no_edits() -> None:
    patch = Patch("", ("torch_autocast",), arguments=("--bf16", "True"))
    page = render(replace(INPUT_BOUND, command=("python", "a.py"), patch=patch))
    assert "python a.py --bf16 True" in page
    assert "0 edits" not in page
