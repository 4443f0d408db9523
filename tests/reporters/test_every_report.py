"""What holds for every report, in every format, whatever the script has in its names."""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console

from reporters.rendering import coloured, text
from reporters.samples import CWD, EVERYTHING, INPUT_BOUND, PARALLEL_MAP, SAMPLES, poisoned
from trainperf.errors import TrainperfError
from trainperf.model import Diagnosis, Patch, Site
from trainperf.report.level import Judgement
from trainperf.report.plain import place
from trainperf.reporters import REPORTERS, reporter
from trainperf.reporters.json.schema import schema
from trainperf.reporters.markdown import COMMENT_LIMIT
from trainperf.reporters.terminal import render

ANSI = re.compile(r"\x1b\[[0-9;]*m")
SARIF = json.loads((Path(__file__).parents[1] / "data/sarif-schema-2.1.0.json").read_text("utf-8"))
COMMAND = re.compile(r"::(?P<kind>\w+)(?: (?P<properties>[^:\n]*))?::(?P<message>.*)")
OURS = re.compile(r"</?(?:details|summary|code|sub)>")

every_sample = pytest.mark.parametrize("name", SAMPLES)


@cache
def rendered(name: str, format_: str) -> str:
    return reporter(format_)(SAMPLES[name]) or ""


# ------------------------------------------------------------------------ the reporters


def test_every_reporter_is_found_by_its_name_and_no_private_module_is_one() -> None:
    assert {"terminal", "json", "html", "markdown", "sarif", "github"} <= set(REPORTERS)
    for name in ("pdf", "_paper"):
        with pytest.raises(TrainperfError, match=name) as caught:
            reporter(name)
        assert "terminal" in caught.value.hint


# ------------------------------------------------------------------------- the terminal


@every_sample
def test_the_terminal_gets_what_fits_it_and_nothing_but_colour_is_added(name: str) -> None:
    sample = SAMPLES[name]
    found = (*sample.findings, *(c.finding for c in sample.experiment_changes))
    code = {line.strip() for one in found for line in one.snippet.split("\n")}
    code.add(f"trainperf try --diff change.diff -- {shlex.join(sample.command)}")
    for width in (80, 120, 168):
        lines = text(sample, width).split("\n")
        assert [line for line in lines if line != line.rstrip()] == []
        wide = {line.strip() for line in lines if cell_len(line) > width}
        assert wide <= code or name in ("everything", "hostile")
    assert text(sample, 10)  # a very narrow one is survived
    report = text(sample)
    assert "\x1b" not in report
    assert "\x1b" not in coloured(sample, no_color=True)
    assert ANSI.sub("", coloured(sample)) == report
    ours = "\n".join(line for line in report.split("\n") if line.strip() not in code)
    assert not re.search(r"\b(nan|inf|None)\b(?! of the causes)", ours)


@every_sample
def test_an_output_that_knows_ascii_only_gets_ascii(name: str) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    render(SAMPLES[name], Console(file=file, width=80))
    file.flush()
    assert raw.getvalue().decode("ascii").strip()


# --------------------------------------------------------------------------- the formats


@every_sample
def test_every_format_keeps_to_its_schema(name: str) -> None:
    jsonschema.Draft202012Validator(schema()).validate(json.loads(rendered(name, "json")))
    checked(json.loads(rendered(name, "sarif")))
    commands(SAMPLES[name])
    page = rendered(name, "markdown")
    assert page.startswith("## trainperf: ")
    assert len(page.encode()) <= COMMENT_LIMIT
    html = rendered(name, "html")
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]", html) is None
    html.encode()


def checked(log: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a SARIF log that keeps to its schema (see tests/data/README.md)."""
    jsonschema.Draft4Validator(SARIF).validate(log)
    return list(log["runs"][0]["results"])


def commands(diagnosis: Diagnosis, *judged: Any) -> list[re.Match[str]]:
    """The workflow commands that GitHub's runner reads, each a line."""
    written = reporter("github")(diagnosis, judgement=Judgement(*judged))  # type: ignore[call-arg]
    lines = [line for line in re.split("\r\n|\r|\n", written or "") if line]
    found = [match for line in lines if (match := COMMAND.fullmatch(line))]
    assert len(found) == len(lines)
    return found


# ------------------------------------------------- names as nobody should give them

NAMES = (
    "a|b",
    "a\\|b",
    "`a|b`",
    "`a\\`|b`",
    "<img src=x onerror=alert(1)>",
    "`</code><script>alert(1)</script>`",
    "</details></summary><b>",
    "<!-- -->",
    "&lt;b&gt; &#60;b&#62; &amp;",
    "@octocat and @github/team, mail@example.com",
    "#12 GH-12 octo/repo#3",
    "[x](http://evil.example)",
    "![x](http://evil.example/a.png)",
    "[x]: http://evil.example",
    "http://evil.example www.evil.example <http://evil.example>",
    "*a* _b_ __c__ **d** ~~e~~ _",
    "`",
    "``",
    "a ``b` c",
    "```\n</details>\n# heading\n```",
    "~~~\nx\n~~~",
    "# heading",
    "- item\n\n1. item\n\n> quote\n\n---\n\n===",
    "| a | b |\n|---|---|\n| c | d |",
    "a\r\nb\u2028c\vd\0e\ufffff\ud800g",
    "::error::x%0A::set-env name=A::b",
    "]]> <![CDATA[ &nope; \x08",
    "\\",
    "a\\",
    "$a$ $$b$$",
    "'\"`$(touch owned)`\"'",
)


def tokens(page: str) -> list[Token]:
    """The tokens that GitHub's parser would see, and those within them."""
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
    return [token for outer in parsed for token in (outer, *(outer.children or ()))]


@cache
def named(name: str, format_: str) -> str:
    """The report of everything, with this in place of every text that comes from outside."""
    return reporter(format_)(poisoned(EVERYTHING, name)) or ""


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_stays_a_name_in_markdown(name: str) -> None:
    seen, harmless = tokens(named(name, "markdown")), tokens(named("x", "markdown"))
    for token in seen:
        assert token.type not in ("link_open", "image", "em_open", "s_open", "hr")
        if token.type in ("html_inline", "html_block"):
            assert "<" not in OURS.sub("", token.content)
        if token.type == "text":
            assert not re.search(r"@\w|#\d|GH-\d|://|www\.", token.content, re.IGNORECASE)
    kinds, wanted = ([token.type for token in those] for those in (seen, harmless))
    for kind in ("td_open", "heading_open", "table_open", "bullet_list_open", "ordered_list_open"):
        assert kinds.count(kind) == wanted.count(kind)
    assert wanted.count("td_open") > 20
    blocks = "".join(token.content for token in seen if token.type == "html_block")
    assert blocks.count("<details>") == blocks.count("</details>") > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_makes_no_result_and_no_command_of_its_own(name: str) -> None:
    hostile, harmless = (poisoned(EVERYTHING, one) for one in (name, "x"))
    for result in checked(json.loads(named(name, "sarif"))):
        assert "](" not in result["message"]["text"]
    found, wanted = (commands(one, "any", (name,)) for one in (hostile, harmless))
    assert [one["kind"] for one in found] == [one["kind"] for one in wanted]
    for one in found:
        keys = {pair.partition("=")[0] for pair in (one["properties"] or "").split(",")}
        assert keys <= {"file", "line", "endLine", "title"}
    named(name, "sarif").encode()


# ---------------------------------------------------- places in notebooks, in each format

SITES = (Site(f"{CWD}/a.ipynb", 3007, "load", 4, 3007, 30), Site(f"{CWD}/a.ipynb", 4001))
CELLS = "--- a/a.ipynb, cell 3\n+++ b/a.ipynb, cell 3\n@@ -7 +7 @@\n-x = f()\n+x = g()\n"
RAW = '--- a/a.ipynb\n+++ b/a.ipynb\n@@ -70 +70 @@\n-    "x = f()"\n+    "x = g()"\n'
NOTEBOOK = replace(
    INPUT_BOUND,
    findings=(replace(PARALLEL_MAP, where=SITES, snippet=""),),
    patch=Patch(RAW, (PARALLEL_MAP.id,), root=CWD, cells=CELLS),
)


def test_lines_of_a_cell_are_no_lines_of_its_file() -> None:
    assert place(SITES[0], CWD) == "cell 3, line 7"
    (result,) = checked(json.loads(reporter("sarif")(NOTEBOOK) or ""))
    (first,), (second,) = result["locations"], result["relatedLocations"]
    assert first["message"]["text"] == "cell 3, line 7"
    assert second["message"]["text"] == "cell 4, line 1"
    assert "region" not in first["physicalLocation"]
    assert "line=" not in "".join(one["properties"] for one in commands(NOTEBOOK))
    for name in ("markdown", "html"):
        page = reporter(name)(NOTEBOOK) or ""
        assert "a.ipynb, cell 3" in page
        assert "3007" not in page
        assert '"    x' not in page
