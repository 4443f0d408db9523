"""Places in notebooks, in each format: lines of a cell are no lines of the file."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from reporters.samples_observed import CWD, INPUT_BOUND
from trainperf.model import Diagnosis, Patch, Site
from trainperf.report.plain import place
from trainperf.reporters import reporter

SITES = (Site(f"{CWD}/a.ipynb", 3007, "load", 4, 3007, 30), Site(f"{CWD}/a.ipynb", 4001))
CELLS = "--- a/a.ipynb, cell 3\n+++ b/a.ipynb, cell 3\n@@ -7 +7 @@\n-x = f()\n+x = g()\n"
RAW = '--- a/a.ipynb\n+++ b/a.ipynb\n@@ -70 +70 @@\n-    "x = f()"\n+    "x = g()"\n'


@pytest.fixture
def diagnosis() -> Diagnosis:
    finding = replace(INPUT_BOUND.findings[0], where=SITES, snippet="")
    patch = Patch(RAW, (finding.id,), root=CWD, cells=CELLS)
    return replace(INPUT_BOUND, findings=(finding,), practices=(), patch=patch)


def test_a_reader_is_told_cell_and_line() -> None:
    assert place(SITES[0], CWD) == "cell 3, line 7"


def test_sarif_names_the_cell_and_no_region(diagnosis: Diagnosis) -> None:
    text = reporter("sarif")(diagnosis)
    assert text is not None
    (result,) = json.loads(text)["runs"][0]["results"]
    (first,), (second,) = result["locations"], result["relatedLocations"]
    assert first["message"]["text"] == "cell 3, line 7"
    assert second["message"]["text"] == "cell 4, line 1"
    assert "region" not in first["physicalLocation"]
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["deletedRegion"]["startLine"] == 70  # of the file itself


def test_annotations_stand_at_the_file(diagnosis: Diagnosis) -> None:
    text = reporter("github")(diagnosis)
    assert text is not None
    (line,) = [each for each in text.split("\n") if "a.ipynb" in each.partition("::title")[0]]
    assert "line=" not in line


def test_a_test_case_has_no_line(diagnosis: Diagnosis) -> None:
    suite = ElementTree.fromstring(reporter("junit")(diagnosis) or "")
    cases = [each for each in suite.iter("testcase") if each.get("file", "").endswith("ipynb")]
    assert len(cases) == 1
    assert cases[0].get("line") is None


@pytest.mark.parametrize("name", ["markdown", "html"])
def test_the_change_is_shown_by_cells(diagnosis: Diagnosis, name: str) -> None:
    text = reporter(name)(diagnosis) or ""
    assert "a.ipynb, cell 3" in text
    assert "3007" not in text
    assert '"    x' not in text
