"""The HTML report is one well-formed page that says what the terminal says."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import textwrap
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from reporters.pages import ALL, ATTACKS, BAD, Page, html_of, page_of, parsed
from reporters.rendering import text
from reporters.samples import (
    EVERYTHING,
    FAILED,
    INPUT_BOUND,
    LATE,
    OUT_OF_BUDGET,
    SAMPLES,
    SYNC,
    TRIED,
)
from trainperf.model import Equivalence, Patch, Verdict
from trainperf.report import whole
from trainperf.report.document import Heading
from trainperf.report.level import Judgement
from trainperf.report.plain import one_line
from trainperf.reporters.html import render
from trainperf.reporters.html.drawing import drawing
from trainperf.reporters.html.markup import LONGEST_PROSE, clipped, prose, shown
from trainperf.reporters.html.sheet import Shown, view

FIGURE = re.compile(r"\d[\d.,]*(?:×| (?:ms|µs|s|min|%|[KMGT]iB|samples/s)(?!\w))")

every_page = pytest.mark.parametrize("name", ALL)


def page(diagnosis: Any = INPUT_BOUND, **laid_over: Any) -> Page:
    return parsed(render(replace(diagnosis, **laid_over)))


# ------------------------------------------------------------------- what holds for every page


@every_page
def test_it_is_well_formed_and_nothing_outside_it_is_named(name: str) -> None:
    found = page_of(name)
    assert (found.wrong, found.open) == ([], [])
    assert len(found.ids) == len(set(found.ids))
    for element in found.elements:
        for attribute, value in element.attributes.items():
            assert not attribute.startswith("on"), element
            assert attribute not in ("src", "srcset", "style", "action", "background"), element
            if attribute in ("href", "xlink:href"):
                assert value == "data:," or (value or "").removeprefix("#") in found.ids, element
            if attribute == "aria-labelledby":
                assert set((value or "").split()) <= set(found.ids)
    foreign = {"img", "iframe", "object", "embed", "form", "base", "audio", "video", "use"}
    assert foreign.isdisjoint(one.tag for one in found.elements)
    for style in found.named("style"):
        assert "url(" not in style.text
        assert "@import" not in style.text


@every_page
def test_headings_tables_and_drawings_can_be_heard(name: str) -> None:
    found = page_of(name)
    levels = [int(one.tag[1]) for one in found.elements if re.fullmatch("h[1-6]", one.tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for head in found.named("th"):
        assert head.attributes.get("scope") in ("row", "col")
    for svg in found.named("svg"):
        role = svg.attributes.get("role")
        inner = "x" in svg.attributes  # part of another drawing
        assert inner or (role == "img") != (svg.attributes.get("aria-hidden") == "true")


@every_page
def test_the_policy_allows_this_style_and_this_script_and_nothing_else(name: str) -> None:
    found = page_of(name)
    (meta,) = [one for one in found.named("meta") if "http-equiv" in one.attributes]
    told = dict(part.split(" ", 1) for part in (meta.attributes["content"] or "").split("; "))
    assert told["default-src"] == "'none'"
    for directive, tag in (("style-src", "style"), ("script-src", "script")):
        (element,) = found.named(tag)
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert told[directive] == f"'sha256-{digest}'"


@pytest.mark.parametrize("name", SAMPLES)
def test_every_heading_and_figure_of_the_terminal_is_on_the_page(name: str) -> None:
    words = page_of(name).words
    headings = {
        block.text
        for section in whole.report(ALL[name], full=True)
        for block in section.blocks
        if isinstance(block, Heading)
    }
    assert [heading for heading in headings if heading not in words] == []
    # what is shortened for the terminal's width, or only there, is left out: commands
    report = text(ALL[name], width=5000).split("\nNext\n")[0]
    assert [one for one in FIGURE.findall(report) if one not in words] == []


def copied(found: Page) -> list[str]:
    """The texts behind the buttons that copy."""
    marks = [one for one in found.elements if one.tag in ("button", "pre")]
    return [after.text for before, after in itertools.pairwise(marks) if before.tag == "button"]


def test_what_is_copied_is_what_is_to_be_pasted() -> None:
    diff = f"{TRIED.patch and TRIED.patch.diff}@@ -40,3 +40,3 @@\n-\tx = '<&>'\n+\tx = 1\n"
    found = page(patch=Patch(diff, ("tf_cache",), environment={"A": "1"}, arguments=("--b", "c")))
    assert found.at("patch-code").text == diff
    texts = copied(found)
    assert {"export A=1", "/python/bin/python slow_images.py --b c"} <= set(texts)
    for finding in INPUT_BOUND.findings:
        assert textwrap.dedent(finding.snippet.expandtabs(4)).strip("\n") in texts
    first = replace(
        INPUT_BOUND.findings[0], equivalence=Equivalence.ENVIRONMENT, snippet="export B=1"
    )
    assert "export B=1" in copied(page(findings=(first,)))


def test_a_reader_of_the_page_learns_how_to_make_the_changes() -> None:
    found = parsed(render(TRIED, saved="20261121-train & co", patch_file="fix.diff"))
    assert "#next" in {one.attributes.get("href") for one in found.named("a")}
    assert "trainperf fix '20261121-train & co'" in copied(found)
    assert "Make 2 edits" in found.words
    assert "git apply fix.diff" in found.words
    assert "trainperf fix" not in page_of("tried").at("next").text
    assert "The gains named are upper bounds, not measured" in page_of("input_bound").words
    assert "with the changes" not in page_of("one_kept").at("verdict").text


def test_what_a_check_says_stands_at_the_top() -> None:
    judgement = Judgement(
        problems=("a step takes 30 % longer <than> before",), answer="check fails: slower"
    )
    words = parsed(render(TRIED, judgement=judgement)).words
    assert "Why the check fails a step takes 30 % longer <than> before" in words
    assert words.index("Why the check fails") < words.index("One step")
    assert words.index("check fails: slower") < words.index("Apply these 2 changes")


def test_the_templates_are_shipped_and_wide_tables_can_be_stacked() -> None:
    folder = files("trainperf.reporters.html") / "templates"
    names = {one.name for one in folder.iterdir()}
    assert {"report.html.j2", "report.css", "report.js"} <= names
    html = html_of("input_bound")
    table = html[html.index('<div class="wide many"') :]
    table = table[: table.index("</table>")]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', table)
    named = set(re.findall(r'data-label="([^"]+)"', table))
    assert named
    assert named <= set(heads[1:])


def test_an_attack_adds_no_element_and_no_attribute_and_is_shown_as_it_was_written() -> None:
    own, found = page_of("everything"), page_of("attacked")
    tags = {one.tag for one in own.elements} | {"pre"}
    attributes = {(one.tag, name) for one in own.elements for name in one.attributes}
    attributes |= {("pre", name) for name in ("class", "tabindex", "role", "aria-label")}
    assert {one.tag for one in found.elements} <= tags
    assert {(one.tag, name) for one in found.elements for name in one.attributes} <= attributes
    for tag in ("script", "style"):
        assert [one.text for one in found.named(tag)] == [one.text for one in own.named(tag)]
    told = " ".join(found.text.replace("\u00a0", " ").split())
    for attack in ATTACKS[:-1]:
        assert one_line(attack).replace("`", "") in told
    assert "{{ 7 * 7 }}" in told


@pytest.mark.parametrize("attack", ATTACKS[:-1])
def test_an_attack_in_the_title_or_a_code_span_stays_in_it(attack: str) -> None:
    found = page(script=attack, verdict=Verdict("input", f"waits for `{attack}`"))
    (title,) = [one for one in found.named("title") if not one.attributes]
    assert title.text.endswith(" – trainperf")
    assert found.wrong == []
    spans = [one.text.replace("\u00a0", " ") for one in found.named("code")]
    assert any(one_line(attack)[:80] in span for span in spans)


def test_what_is_too_long_is_cut_and_what_no_view_made_safe_is_made_safe() -> None:
    longest = max(len(run) for run in re.findall("x+", page_of("attacked").at("verdict").text))
    assert longest <= LONGEST_PROSE < len(BAD)
    assert shown("a\x1b[31m\u202eb\udce9") == "ab?"
    assert shown(prose("<b>")) == "&lt;b&gt;"
    assert shown(3) == 3
    assert clipped("/home/ada/train.py", 10) == "…/train.py"
    assert clipped("some words here", 10) == "some word…"
    ended = page(EVERYTHING, ending=FAILED.ending, output_tail="\x1b[31mred\x1b[0m\x07 end")
    assert "red end" in ended.at("output").text


# ------------------------------------------------------------------------------- its drawings


def of(place: str) -> float:
    return float(place.removesuffix("%"))


def shown_in(diagnosis: Any, name: str, kind: str) -> Shown:
    found = view(whole.report(diagnosis, full=True), name)
    assert found is not None
    return next(block for block in found.blocks if block.kind == kind)


@pytest.mark.parametrize("diagnosis", [INPUT_BOUND, EVERYTHING, LATE, SYNC])
def test_the_parts_of_a_step_fill_its_bar(diagnosis: Any) -> None:
    pieces = shown_in(diagnosis, "step", "bar").pieces
    assert len(pieces) >= 2
    assert sum(of(one.width) for one in pieces) == pytest.approx(100, abs=0.1)
    assert [of(one.x) for one in pieces] == sorted(of(one.x) for one in pieces)


def test_all_trials_are_drawn_on_one_scale_with_their_intervals() -> None:
    drawn = drawing(TRIED)
    assert drawn is not None
    assert len(drawn.intervals) >= 2
    assert (drawn.one, "1×") in drawn.ticks
    for one in drawn.intervals:
        assert of(one.low) < of(one.point) < of(one.high)
    start, width = drawn.noise or ("", "")
    assert of(start) < of(drawn.one) < of(start) + of(width)
    assert drawn.intervals[0].words == "3.2× (2.8 to 3.5), at most 4.5× predicted"
    heard = [one.attributes.get("aria-label") for one in page_of("tried").named("svg")]
    assert {one.words for one in drawn.intervals} <= set(heard)
    assert drawing(OUT_OF_BUDGET) is None
