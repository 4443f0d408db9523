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
    HEALTHY,
    INPUT_BOUND,
    LATE,
    NOTHING_KEPT,
    SAMPLES,
    SYNC,
    TRIED,
    over,
)
from trainperf.model import Equivalence, Moment, Patch, Site, Span, Timeline, Verdict
from trainperf.model.diagnosis import Ignored
from trainperf.report import whole
from trainperf.report.level import Judgement
from trainperf.report.plain import one_line
from trainperf.reporters.html import render
from trainperf.reporters.html.drawing import Scale, interval, percent, plots, scale
from trainperf.reporters.html.markup import LONGEST_PROSE, clipped, prose, shown
from trainperf.reporters.html.page import bar, times
from trainperf.reporters.html.timeline import LANES, drawn

SECTIONS = {
    *("verdict", "step", "timeline", "changes", "experiment", "trials", "together", "patch"),
    *("input", "job", "costs", "machine", "storage", "practices", "not-measured", "notes"),
}
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
    for drawing in found.named("svg"):
        role = drawing.attributes.get("role")
        inner = "x" in drawing.attributes  # part of another drawing
        assert inner or (role == "img") != (drawing.attributes.get("aria-hidden") == "true")


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
    assert [
        one.heading for one in whole.document(ALL[name]).sections if one.heading not in words
    ] == []
    # what is shortened for the terminal's width, or only there, is left out: commands
    report = text(ALL[name], width=5000).split("\nNext\n")[0]
    assert [one for one in FIGURE.findall(report) if one not in words] == []


# ------------------------------------------------------------------------------ its sections


def test_a_full_diagnosis_has_every_section_and_its_verdict_first() -> None:
    assert set(page_of("everything").ids) >= SECTIONS
    assert render(TRIED) == html_of("tried")
    words = page_of("tried").words
    assert words.index("Input-bound: the step could run") < words.index("One step")
    assert "Apply these 2 changes: your training as configured about 27.8 s → 15.4 s" in words


def test_a_section_without_content_is_not_there_and_what_was_not_measured_is_said() -> None:
    found = page_of("failed")
    assert set(found.ids).isdisjoint({"timeline", "changes", "trials", "together", "patch", "job"})
    assert {"verdict", "output", "machine", "not-measured"} <= set(found.ids)
    assert "No step was timed." in found.words
    assert not re.search(r"(?<![\d.,])0 (?:s|ms|µs|%|samples/s)", found.words)
    assert "timeline" not in page(HEALTHY, timeline=Timeline(3.0, 2.0, (), ())).ids
    words = page_of("healthy").words
    assert "Nothing to change" in words
    assert "What to change" not in words


def copied(found: Page) -> list[str]:
    """The texts behind the buttons that copy."""
    marks = [one for one in found.elements if one.tag in ("button", "pre")]
    return [after.text for before, after in itertools.pairwise(marks) if before.tag == "button"]


def test_what_is_copied_is_what_is_to_be_pasted() -> None:
    diff = f"{TRIED.patch and TRIED.patch.diff}@@ -40,3 +40,3 @@\n \n-\tx = '<&>'\n+\tx = 1\n \n"
    found = page(patch=Patch(diff, ("tf_cache",), environment={"A": "1"}, arguments=("--b", "c")))
    assert found.at("patch-code").text == diff
    texts = copied(found)
    assert {diff, "export A=1", "/python/bin/python slow_images.py --b c"} <= set(texts)
    for finding in INPUT_BOUND.findings:
        assert textwrap.dedent(finding.snippet.expandtabs(4)).strip("\n") in texts
    first = replace(
        INPUT_BOUND.findings[0], equivalence=Equivalence.ENVIRONMENT, snippet="export B=1"
    )
    assert "export B=1" in copied(page(findings=(first,)))
    assert '<span class="k">with</span>' in html_of("torch")
    assert '<span class="s">&#34;cpu&#34;</span>' in html_of("torch")


@pytest.mark.parametrize("sign", ["\r\n", "\x0c\n", "\ufeff\n", "\udce9\n"])
def test_a_patch_that_a_page_would_change_cannot_be_copied(sign: str) -> None:
    found = page(patch=Patch(f"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y{sign}", ("a",)))
    assert found.at("patch-code").text not in copied(found)
    assert "characters that a page cannot carry" in found.words


def test_what_was_rejected_is_no_advice_and_other_experiments_stand_apart() -> None:
    rejected = page_of("nothing_kept").at("changes").text
    assert "Slower: 0.83×" in rejected
    (finding,) = NOTHING_KEPT.findings
    assert finding.advice not in page_of("nothing_kept").words
    found = page_of("one_kept")
    section = found.at("experiment").text
    assert "1,850 (1,610 to 2,130)" in section
    assert "trainperf fix --only tf_padding_buckets" in copied(found)
    assert "Most of each sequence is padding" not in found.at("changes").text
    assert "experiment" not in page_of("tried").ids


def test_ignored_findings_volumes_and_prices_are_told() -> None:
    ignored = Ignored(INPUT_BOUND.findings[1], Site("train.py", 30))
    assert "tf_map_parallel (train.py:30)" in page(ignored=(ignored,)).at("ignored").text
    two = render(over(INPUT_BOUND, reads=INPUT_BOUND.evidence.reads * 2))
    storage = two.split('id="storage"')[1].split("</section>")[0]
    assert storage.count("<dl") == storage.count("<dt>Where</dt>") == 2
    unknown = replace(INPUT_BOUND.evidence.machine, price=None, price_reason="no credentials")
    if INPUT_BOUND.evidence.machine.instance is not None:
        assert (
            "not known (no credentials)"
            in page(evidence=replace(INPUT_BOUND.evidence, machine=unknown)).words
        )


def test_a_reader_of_the_page_learns_how_to_make_the_changes() -> None:
    found = parsed(render(TRIED, saved="20261121-train & co", patch_file="fix.diff"))
    assert "#next" in {one.attributes.get("href") for one in found.named("a")}
    assert "trainperf fix '20261121-train & co'" in copied(found)
    assert "Make these 2 edits" in found.words
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


def test_a_job_is_headed_by_what_its_launcher_starts() -> None:
    command = ("/usr/bin/torchrun", "--standalone", "--nproc_per_node", "2", "train.py")
    found = page(LATE, script=" ".join(command), command=command)
    assert [one.text for one in found.named("h1")] == ["train.py"]
    assert "torchrun --standalone --nproc_per_node 2 train.py" in found.words


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


@pytest.mark.parametrize("diagnosis", [INPUT_BOUND, EVERYTHING, LATE, SYNC])
def test_the_parts_of_a_step_fill_its_bar(diagnosis: Any) -> None:
    pieces = bar(diagnosis)
    assert len(pieces) >= 2
    assert sum(of(one.width) for one in pieces) == pytest.approx(100, abs=0.1)
    assert [of(one.x) for one in pieces] == sorted(of(one.x) for one in pieces)


def test_the_times_stand_on_one_scale() -> None:
    found = times(INPUT_BOUND)
    assert found is not None
    (table,) = found.blocks
    assert of(table.drawn[0][0]) / of(table.drawn[1][0]) == pytest.approx(
        (INPUT_BOUND.step_s or 0) / (INPUT_BOUND.resident_s or 1), rel=0.01
    )
    cells = [one.replace("\u00a0", " ") for row in table.rows for one in row]
    assert INPUT_BOUND.real is not None
    assert f"{len(INPUT_BOUND.real.blocks)} blocks" in cells[3]
    assert {"32.3 ms", "1.15 ms"} <= set(cells)
    assert bar(FAILED) == []


def test_a_scale_holds_what_it_is_made_for_and_one() -> None:
    made = scale([0.5, None, 3.0])
    assert 0 < made.at(0.5) < made.at(1.0) < made.at(3.0) < 1
    assert [tick for tick in made.ticks() if tick.one]
    assert 0 < scale([]).at(1.0) < 1
    even = Scale(0.25, 4.0)
    assert even.at(2.0) - even.at(1.0) == pytest.approx(even.at(1.0) - even.at(0.5))
    places = [of(tick.x) for tick in scale([0.01, 1e4]).ticks()]
    assert len(places) > 3
    assert all(after - before >= 8.9 for before, after in itertools.pairwise(places))
    assert [percent(one) for one in (-1.0, 0.5, 7.0, float("nan"))] == ["0%", "50%", "100%", "0%"]


def test_an_interval_has_its_point_inside_and_what_is_not_known_is_not_drawn() -> None:
    drawing = interval(scale([3.0]), 2.0, 1.8, 2.3, bound=3.0, floor=0.02, kept=True)
    assert of(drawing.low) < of(drawing.point) < of(drawing.high) < of(drawing.bound)
    assert of(drawing.noise_from) < of(drawing.one)
    assert drawing.words.startswith("measured 2.0× (1.8 to 2.3); at most 3.0×; gains below 2.0 %")
    bare = interval(scale([]), 1.1, 1.0, 1.2, bound=None, floor=None)
    assert (bare.noise_from, bare.bound) == ("", "")


def test_all_trials_are_drawn_on_one_scale_and_one_change_has_no_parts() -> None:
    drawn_ones = [one for one in plots(TRIED).intervals if one is not None]
    assert len(drawn_ones) >= 2
    assert len({plot.one for plot in drawn_ones}) == 1
    assert plots(INPUT_BOUND).axis == ()
    assert "together" not in page_of("one_kept").ids


RUN = TRIED.timeline


def test_a_timeline_names_each_phase_once_and_breaks_where_nothing_was_measured() -> None:
    assert RUN is not None
    whole_run = drawn(RUN)
    assert whole_run is not None
    numbers = {(band.name, band.key) for band in whole_run.bands}
    assert len(numbers) == len({name for name, _ in numbers}) <= len(whole_run.bands)
    half = len(RUN.moments) // 2
    gap = tuple(
        replace(one, cpu_cores=None) if half <= at < half + 9 else one
        for at, one in enumerate(RUN.moments)
    )
    broken = drawn(replace(RUN, moments=gap))
    assert broken is not None
    assert broken.lanes[0].area.count("M") == whole_run.lanes[0].area.count("M") + 1
    brief = (*RUN.phases, Span("brief", RUN.seconds, RUN.seconds + 0.001))
    cut = drawn(replace(RUN, phases=brief))
    assert cut is not None
    assert "brief" not in [phase.name for phase in cut.phases]
    assert drawn(None) is None


def test_gpus_that_were_never_read_have_no_lane_and_of_many_some_are_drawn() -> None:
    assert RUN is not None
    silent = drawn(
        replace(RUN, moments=tuple(replace(one, gpu_percent=(None,)) for one in RUN.moments))
    )
    many = drawn(
        replace(RUN, moments=tuple(replace(one, gpu_percent=(50.0,) * 16) for one in RUN.moments))
    )
    assert silent is not None
    assert many is not None
    assert not any("gpu" in lane.key for lane in silent.lanes)
    assert len(many.lanes) == LANES + 1
    assert many.omitted == "8 of 16 GPUs are drawn."


@pytest.mark.parametrize(("seen", "most"), [(2.2, "2"), (3.0, "3")])
def test_a_late_sample_does_not_add_a_core_to_the_machine(seen: float, most: str) -> None:
    moments = tuple(Moment(at, 1.0, seen, None) for at in (1.0, 2.0))
    found = drawn(Timeline(3.0, 2.0, (), moments))
    assert found is not None
    assert found.lanes[0].most == most
