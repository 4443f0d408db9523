"""Text of the script stays text on the page, whatever it holds."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reporters.pages import html_of, page_of, parsed
from reporters.samples_observed import INPUT_BOUND
from reporters.samples_pages import ATTACKED, ATTACKS, BAD, EVERYTHING, LONG
from trainperf.model import Verdict
from trainperf.report.plain import one_line
from trainperf.reporters.html import render
from trainperf.reporters.html.markup import LONGEST_PROSE, clipped, prose, shown

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def test_an_attack_adds_no_element_and_no_attribute() -> None:
    own = page_of("everything")
    tags = {one.tag for one in own.elements} | {"pre"}
    attributes = {(one.tag, name) for one in own.elements for name in one.attributes}
    attributes |= {("pre", name) for name in ("class", "tabindex", "role", "aria-label")}
    page = page_of("attacked")
    assert {one.tag for one in page.elements} <= tags
    assert {(one.tag, name) for one in page.elements for name in one.attributes} <= attributes


def test_no_script_and_no_style_but_our_own() -> None:
    own, page = page_of("everything"), page_of("attacked")
    for tag in ("script", "style"):
        assert [one.text for one in page.named(tag)] == [one.text for one in own.named(tag)]


def test_an_attack_is_shown_as_it_was_written() -> None:
    told = " ".join(page_of("attacked").text.replace("\u00a0", " ").split())
    for attack in ATTACKS:
        assert one_line(attack).replace("`", "") in told


def test_templates_in_names_are_not_run() -> None:
    assert "{{ 7 * 7 }}" in page_of("attacked").text


def test_no_control_character_no_turned_text_and_no_half_character_gets_through() -> None:
    html = html_of("attacked")
    assert CONTROLS.search(html) is None
    html.encode("utf-8")


def test_a_name_of_ten_thousand_characters_is_cut() -> None:
    longest = max(len(run) for run in re.findall("x+", page_of("attacked").text))
    assert longest <= LONGEST_PROSE or LONG in ATTACKED.findings[0].snippet
    assert len(html_of("attacked")) < 400_000


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_in_the_title_stays_in_it(attack: str) -> None:
    page = parsed(render(replace(INPUT_BOUND, script=attack)))
    (title,) = [one for one in page.named("title") if not one.attributes]
    assert title.text.endswith(" – trainperf")
    assert page.wrong == []


def test_an_attack_in_a_code_span_stays_in_it() -> None:
    verdict = Verdict("input", f"waits for `{BAD}`")
    page = parsed(render(replace(INPUT_BOUND, verdict=verdict)))
    assert one_line(BAD) in [one.text.replace("\u00a0", " ") for one in page.named("code")]


def test_colours_of_a_terminal_do_not_reach_the_page() -> None:
    ended = replace(EVERYTHING, ending=ATTACKED.ending, output_tail="\x1b[31mred\x1b[0m\x07 end")
    assert "red end" in parsed(render(ended)).at("output").text


def test_a_value_that_no_view_made_safe_is_made_safe_where_it_is_printed() -> None:
    assert shown("a\x1b[31m\u202eb\udce9") == "ab?"
    assert shown(prose("<b>")) == "&lt;b&gt;"
    assert shown(3) == 3


def test_of_a_path_that_is_cut_the_end_stays() -> None:
    assert clipped("/home/ada/train.py", 10) == "…/train.py"
    assert clipped("some words here", 10) == "some word…"
    assert clipped("short", 10) == "short"
