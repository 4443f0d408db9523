"""A section of the report is a module of its folder, and nothing else names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reporters.rendering import text
from reporters.samples import INPUT_BOUND
from trainperf.report import sections as folder
from trainperf.report import whole
from trainperf.reporters import reporter

TEA = """
from trainperf.report.document import STEP, Section

def tea(diagnosis, page):
    page.heading("Tea")
    page.prose(f"Ready before {diagnosis.script} is.", indent=2)

SECTIONS = (Section("tea", STEP + 125, tea, True, side="machine"),)
"""


def test_a_file_put_there_is_a_section_of_every_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tea.py").write_text(TEA)
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    whole.sections.cache_clear()
    try:
        for full in (True, False):
            assert "\nTea\n  Ready before slow_images.py is.\n" in text(INPUT_BOUND, full=full)
        markdown, page = reporter("markdown")(INPUT_BOUND) or "", reporter("html")(INPUT_BOUND)
        assert "### Tea\n\nReady before slow_images.py is." in markdown
        assert "Ready before slow_images.py is." in (page or "").split('id="machine"')[1]
    finally:
        whole.sections.cache_clear()


def test_no_two_sections_share_a_name_or_a_place() -> None:
    found = whole.sections()
    assert len({section.name for section in found}) == len(found)
    assert len({section.place for section in found}) == len(found)
