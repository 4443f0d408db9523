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

from reporters.pages import ALL, html_of, page_of, parsed
from reporters.rendering import text
from reporters.samples_observed import DIFF, FAILED, HEALTHY, INPUT_BOUND
from reporters.samples_pages import EVERYTHING
from reporters.samples_tried import ALL_OUTCOMES
from trainperf.model import Equivalence, Moment, Patch, Site, Timeline
from trainperf.model.diagnosis import Ignored
from trainperf.report.level import Judgement
from trainperf.reporters.html import render
from trainperf.reporters.html.timeline import drawn

SECTIONS = (
    *("verdict", "step", "timeline", "changes", "rejected", "trials", "together", "patch"),
    *("input", "job", "costs", "machine", "storage", "practices", "not-measured", "notes"),
)

FIGURE = re.compile(r"\d[\d.,]*(?:×| (?:ms|µs|s|min|%|[KMGT]iB|samples/s)(?!\w))")

every_sample = pytest.mark.parametrize("name", ALL)


@every_sample
def test_every_tag_is_closed_where_it_should_be(name: str) -> None:
    page = page_of(name)
    assert page.wrong == []
    assert page.open == []


def test_wide_tables_name_each_cell_so_that_a_phone_can_stack_them() -> None:
    page = html_of("input_bound")
    table = page[page.index('<div class="wide many"') :]
    table = table[: table.index("</table>")]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', table)
    named = set(re.findall(r'data-label="([^"]+)"', table))
    assert named
    assert named <= set(heads[1:])


@every_sample
def test_nothing_outside_the_page_is_named(name: str) -> None:
    page = page_of(name)
    for element in page.elements:
        for attribute, value in element.attributes.items():
            assert not attribute.startswith("on"), element
            assert attribute not in ("src", "srcset", "style", "action", "background"), element
            if attribute in ("href", "xlink:href"):
                assert value == "data:," or (value or "").removeprefix("#") in page.ids, element
    assert {one.tag for one in page.elements}.isdisjoint(
        {"img", "iframe", "object", "embed", "form", "base", "audio", "video", "use", "image"}
    )
    for style in page.named("style"):
        assert "url(" not in style.text
        assert "@import" not in style.text


@every_sample
def test_ids_are_there_once_and_what_names_them_finds_them(name: str) -> None:
    page = page_of(name)
    assert len(page.ids) == len(set(page.ids))
    for element in page.elements:
        for attribute in ("aria-labelledby", "data-copies"):
            for named in (element.attributes.get(attribute) or "").split():
                assert named in page.ids


@every_sample
def test_headings_stand_in_order_under_one_title(name: str) -> None:
    levels = [int(one.tag[1]) for one in page_of(name).elements if re.fullmatch("h[1-6]", one.tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@every_sample
def test_tables_and_drawings_can_be_heard(name: str) -> None:
    page = page_of(name)
    for head in page.named("th"):
        assert head.attributes.get("scope") in ("row", "col")
    for drawing in page.named("svg"):
        role = drawing.attributes.get("role")
        inner = "x" in drawing.attributes  # part of another drawing
        assert inner or (role == "img") != (drawing.attributes.get("aria-hidden") == "true")


@every_sample
def test_the_policy_allows_this_style_and_this_script_and_nothing_else(name: str) -> None:
    page = page_of(name)
    (meta,) = [one for one in page.named("meta") if "http-equiv" in one.attributes]
    told = dict(part.split(" ", 1) for part in (meta.attributes["content"] or "").split("; "))
    assert told["default-src"] == "'none'"
    for directive, tag in (("style-src", "style"), ("script-src", "script")):
        (element,) = page.named(tag)
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert told[directive] == f"'sha256-{digest}'"


@every_sample
def test_every_figure_of_the_terminal_is_on_the_page(name: str) -> None:
    diagnosis = ALL[name]
    page = page_of(name).words
    # what is shortened for the terminal's width, or only there, is left out: commands
    report = text(diagnosis, width=5000).split("\nNext\n")[0]
    assert [one for one in FIGURE.findall(report) if one not in page] == []


def test_the_same_diagnosis_gives_the_same_page() -> None:
    assert render(EVERYTHING) == html_of("everything")


def test_the_verdict_comes_first() -> None:
    words = page_of("everything").words
    assert words.index("Input-bound: the step could run") < words.index("One step")
    assert "Apply these 2 changes: your training as configured 14 min 28 s → 6 min 32 s" in words


def test_a_full_diagnosis_has_every_section() -> None:
    assert set(SECTIONS) <= set(page_of("everything").ids)


def test_a_section_without_content_is_not_there() -> None:
    ids = set(page_of("failed").ids)
    assert ids.isdisjoint({"timeline", "changes", "trials", "together", "patch", "job", "storage"})
    assert {"verdict", "output", "machine", "not-measured"} <= ids


def test_what_was_not_measured_is_said_and_never_zero() -> None:
    page = parsed(render(replace(FAILED, overhead=None)))
    assert "No step was timed." in page.words
    assert "the three times: the script ended before its first step" in page.words
    assert not re.search(r"(?<![\d.,])0 (?:s|ms|µs|%|samples/s)", page.words)


def test_a_stage_that_was_not_timed_says_so() -> None:
    assert "prefetch not timed by Keras" in page_of("input_bound").words


def test_a_healthy_script_is_told_to_change_nothing() -> None:
    words = page_of("healthy").words
    assert "Nothing to change" in words
    assert "What to change" not in words


def test_the_copied_patch_is_the_patch() -> None:
    diff = f"{DIFF}@@ -40,3 +40,3 @@\n \n-\tx = '<&>'\n+\tx = \"&amp;\"\n \n"
    page = parsed(render(replace(INPUT_BOUND, patch=Patch(diff, ("tf_map_parallel",)))))
    assert page.at("patch-code").text == diff
    assert "patch-code" in [one.attributes.get("data-copies") for one in page.named("button")]


@pytest.mark.parametrize("sign", ["\r\n", "\x0c\n", "\ufeff\n", "\udce9\n"])
def test_a_patch_that_a_page_would_change_cannot_be_copied(sign: str) -> None:
    page = parsed(render(replace(INPUT_BOUND, patch=Patch(DIFF.replace("\n", sign), ("a",)))))
    assert "patch-code" not in [one.attributes.get("data-copies") for one in page.named("button")]
    assert "characters that a page cannot carry" in page.words


def test_the_copied_snippet_is_the_snippet() -> None:
    page = page_of("input_bound")
    for number, finding in enumerate(INPUT_BOUND.findings, start=1):
        copied = page.at(f"change-{number}-snippet").text
        assert copied == textwrap.dedent(finding.snippet).strip("\n")


def test_code_has_its_syntax_in_colour() -> None:
    html = html_of("torch_observed")
    assert '<span class="k">with</span>' in html
    assert '<span class="s">&#34;cuda&#34;</span>' in html


def test_a_rejected_fix_is_no_advice() -> None:
    page = parsed(render(replace(ALL_OUTCOMES, experiment_changes=())))
    rejected = page.at("rejected").text
    assert "Losses differ: by 7.3 % from step 12 on".replace(" %", "\u00a0%") in rejected
    assert "Set the policy before the model is built" not in page.words


def test_what_would_change_the_experiment_has_a_section_with_its_rates_and_its_command() -> None:
    page = page_of("all_outcomes")
    section = page.at("experiment").text
    assert "batch=128: 212 samples/s → 434 samples/s (422 to 447), 2.05× (1.99 to 2.11)" in section
    assert "batch=64: 212 samples/s → 322 samples/s (312 to 335), 1.52×" in section
    assert "losses part by 7.3" in section
    assert page.at("experiment-1-command").text == "trainperf fix --only batch_size"
    assert page.at("experiment-1-snippet").text == "ds = ds.batch(128)"
    assert "The batch of 32" not in page.at("changes").text
    assert "Compute in bfloat16" not in page.at("rejected").text
    assert "experiment" not in page_of("tried").ids


def test_losses_are_compared_and_where_they_were_not_that_is_said() -> None:
    words = page_of("all_outcomes").words
    assert "part by 7.3 % at step 12" in words
    assert "not compared" in words


def test_a_finding_that_a_comment_leaves_out_is_named() -> None:
    ignored = Ignored(INPUT_BOUND.findings[0], Site("train.py", 30))
    page = parsed(render(replace(INPUT_BOUND, ignored=(ignored,))))
    assert "Run map(load_image) on several cores (train.py:30)" in page.at("ignored").text


def test_every_volume_is_told_for_itself() -> None:
    html = html_of("everything").split('id="storage"')[1].split("</section>")[0]
    assert html.count("<dl") == html.count("<dt>Where</dt>") == 2


def test_a_price_that_is_not_known_is_said() -> None:
    machine = replace(EVERYTHING.machine, price=None, price_reason="no credentials")
    page = parsed(render(replace(EVERYTHING, machine=machine, cost=None)))
    assert "not known (no credentials); --price-per-hour gives it." in page.words


def test_variables_are_part_of_the_patch() -> None:
    assert "export TF_GPU_THREAD_MODE=gpu_private" in page_of("tried").at("environment-code").text


def test_an_option_of_the_command_is_shown_as_the_command() -> None:
    patch = Patch("", ("torch_autocast",), arguments=("--bf16", "True"))
    page = parsed(render(replace(INPUT_BOUND, command=("python", "a.py"), patch=patch)))
    assert page.at("command-code").text == "python a.py --bf16 True"


def test_the_environment_is_no_python() -> None:
    finding = replace(
        INPUT_BOUND.findings[0], equivalence=Equivalence.ENVIRONMENT, snippet="export A=1"
    )
    page = parsed(render(replace(INPUT_BOUND, findings=(finding,))))
    assert page.at("change-1-snippet").text == "export A=1"


def test_an_empty_timeline_is_not_drawn() -> None:
    empty = replace(HEALTHY, timeline=Timeline(3.0, 2.0, (), ()))
    assert "timeline" not in parsed(render(empty)).ids


def test_the_templates_are_shipped_beside_the_code() -> None:
    folder = files("trainperf.reporters.html") / "templates"
    names = {one.name for one in folder.iterdir()}
    assert {"report.html.j2", "report.css", "report.js"} <= names


def test_a_reader_of_the_page_learns_how_to_make_the_changes() -> None:
    page = parsed(render(EVERYTHING, saved="20261121-train & co", patch_file="fix.diff"))
    assert "#next" in {one.attributes.get("href") for one in page.named("a")}
    assert page.at("next-1").text == "trainperf fix '20261121-train & co'"
    assert "Make these changes in your files (2 edits)" in page.words
    assert "git apply fix.diff" in page.words
    assert "trainperf fix" not in page_of("everything").at("next").text


def test_a_page_of_a_check_says_at_its_top_why_it_fails() -> None:
    judgement = Judgement(problems=("a step takes 30 % longer <than> before",))
    page = parsed(render(EVERYTHING, judgement=judgement))
    assert "Why the check fails a step takes 30 % longer <than> before" in page.words
    assert page.words.index("Why the check fails") < page.words.index("One step")
    assert "Why the check fails" not in page_of("everything").words


def test_the_answer_of_a_check_stands_below_the_verdict() -> None:
    judgement = Judgement(answer="check passes: 2 % slower, within the noise")
    words = parsed(render(EVERYTHING, judgement=judgement)).words
    assert words.index("check passes: 2 % slower") < words.index("Apply these 2 changes")


def test_the_answer_on_top_speaks_of_what_stands_below() -> None:
    untried = parsed(render(replace(INPUT_BOUND, trials=(), stack=None, trying=None))).words
    assert "The figures below are upper bounds, not measured" in untried
    assert "above are upper bounds" not in untried


def test_a_job_is_headed_by_what_its_launcher_starts() -> None:
    command = ("/usr/bin/torchrun", "--standalone", "--nproc_per_node", "2", "my train.py")
    script = "/usr/bin/torchrun --standalone --nproc_per_node 2 'my train.py'"
    page = parsed(render(replace(EVERYTHING, script=script, command=command)))
    assert [one.text for one in page.named("h1")] == ["my train.py"]
    assert "torchrun --standalone --nproc_per_node 2 my train.py" in page.words


def test_one_change_is_not_called_several() -> None:
    assert EVERYTHING.stack is not None
    stack = replace(EVERYTHING.stack, fixes=EVERYTHING.stack.fixes[:1])
    trials = tuple(replace(one, kept=one.fix in stack.fixes) for one in EVERYTHING.trials)
    page = parsed(render(replace(EVERYTHING, stack=stack, trials=trials)))
    assert "with the changes" not in page.words
    assert "→ $0.49 with the change" in page.words


def test_a_late_sample_does_not_add_a_core_to_the_machine() -> None:
    assert _scale_of_two_cores(seen=2.2) == "2"
    assert _scale_of_two_cores(seen=3.0) == "3"


def _scale_of_two_cores(seen: float) -> str:
    moments = tuple(Moment(at, 1.0, seen, None) for at in (1.0, 2.0))
    found = drawn(Timeline(3.0, 2.0, (), moments))
    assert found is not None
    return found.lanes[0].most


def test_a_section_without_a_place_of_its_own_stands_among_the_other_costs(monkeypatch) -> None:
    from trainperf.report import whole
    from trainperf.report.document import Document, Page, Section

    def with_one_more(diagnosis: Any, **options: str) -> Document:
        page = Page()
        page.heading("Tea")
        page.prose("The kettle takes 4 min.")
        return Document(
            (*whole.document(diagnosis, **options).sections, Section("tea", tuple(page.blocks)))
        )

    monkeypatch.setattr("trainperf.reporters.html.page.document", with_one_more)
    assert "The kettle takes" in render(HEALTHY)
