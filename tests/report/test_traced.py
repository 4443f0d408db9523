"""The words of the report on the trace that was asked for."""

from __future__ import annotations

from dataclasses import replace

from reporters.samples import INPUT_BOUND
from trainperf.model import TraceFile
from trainperf.report.document import Page
from trainperf.report.sections.closing import traced


def said(trace: TraceFile | None) -> str:
    page = Page()
    traced(replace(INPUT_BOUND, trace=trace), page)
    return " ".join(str(block) for block in page.blocks)


def test_why_there_is_none_is_one_sentence() -> None:
    text = said(TraceFile("t.json", reason="the script's own profiler is on"))
    assert "No step was traced: the script's own profiler is on." in text
    assert "t.json" not in text


def test_where_it_is_and_what_opens_it() -> None:
    text = said(TraceFile("t.json.gz", steps=5))
    assert "A trace of 5 steps is in t.json.gz: open it at ui.perfetto.dev" in text
    assert "chrome://tracing" in text
    assert "it was late" in said(TraceFile("t.json", steps=3, note="it was late"))
