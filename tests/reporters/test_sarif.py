"""SARIF that keeps to its schema, and points where it should.

The schema is Microsoft's, see tests/data/README.md.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from reporters.hostile import NAMES, named
from reporters.samples import SAMPLES
from reporters.samples_observed import CWD, DECODE, FAILED, HEALTHY, INPUT_BOUND, PARALLEL_MAP
from reporters.samples_tried import ALL_OUTCOMES
from trainperf.fixes import by_id
from trainperf.model import Diagnosis, Finding, Patch, Site
from trainperf.model.diagnosis import Ignored
from trainperf.report.level import Judgement
from trainperf.reporters.sarif import render
from trainperf.rewrite.diff import unified

SCHEMA = json.loads(
    (Path(__file__).parent.parent / "data/sarif-schema-2.1.0.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft4Validator(SCHEMA)
IGNORED = replace(
    INPUT_BOUND,
    findings=INPUT_BOUND.findings[1:],
    ignored=(Ignored(PARALLEL_MAP, Site(DECODE.file, 30)),),
)


def run(diagnosis: Diagnosis, **options: Any) -> dict[str, Any]:
    log = json.loads(render(diagnosis, **options))
    VALIDATOR.validate(log)
    (only,) = log["runs"]
    for result in only["results"]:
        assert only["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return dict(only)


def place(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["locations"][0]["physicalLocation"])


def test_the_schema_refuses_what_is_none() -> None:
    log = json.loads(render(INPUT_BOUND))
    log["runs"][0]["results"][0]["level"] = "notice"
    assert not VALIDATOR.is_valid(log)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_keeps_to_the_schema(name: str) -> None:
    run(SAMPLES[name])


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_keep_to_the_schema_and_make_no_link(name: str) -> None:
    found = run(replace(named(name), ignored=IGNORED.ignored), judgement=Judgement("any", (name,)))
    render(named(name)).encode()
    for result in found["results"]:
        assert "](" not in result["message"]["text"]


def test_a_result_points_to_its_call_from_1_with_an_exclusive_end() -> None:
    found = run(INPUT_BOUND)
    assert found["columnKind"] == "unicodeCodePoints"
    assert place(found["results"][0]) == {
        "artifactLocation": {"uri": "train.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 31, "startColumn": 10, "endLine": 31, "endColumn": 30},
    }
    assert "%SRCROOT%" in found["originalUriBaseIds"]


def test_a_place_without_an_extent_is_its_line() -> None:
    finding = replace(PARALLEL_MAP, where=(Site(f"{CWD}/a.py", 7),))
    (result,) = run(replace(INPUT_BOUND, findings=(finding,), practices=()))["results"]
    assert place(result)["region"] == {"startLine": 7}


@pytest.mark.parametrize("name", ["a b.py", "ä%20#?.py", "\udce9.py", "a:b.py"])
def test_names_of_files_are_percent_encoded(name: str) -> None:
    finding = replace(PARALLEL_MAP, where=(Site(f"{CWD}/sub/{name}", 7),))
    (result,) = run(replace(INPUT_BOUND, findings=(finding,), practices=()))["results"]
    uri = place(result)["artifactLocation"]["uri"]
    assert uri.startswith("sub/")
    assert uri.isascii()
    assert not set(uri) & set(" #?:")
    assert unquote(uri, errors="surrogateescape") == f"sub/{name}"


def test_a_file_outside_the_root_is_named_whole() -> None:
    result = run(INPUT_BOUND, root="/elsewhere")["results"][0]
    assert place(result)["artifactLocation"] == {"uri": f"file://{CWD}/train.py"}


def test_other_places_of_a_finding_are_related() -> None:
    cache = run(INPUT_BOUND)["results"][1]
    assert [
        one["physicalLocation"]["region"]["startLine"] for one in cache["relatedLocations"]
    ] == [29]


def test_a_finding_without_a_place_is_at_the_loop_and_says_so() -> None:
    finding = replace(PARALLEL_MAP, where=())
    (result,) = run(replace(INPUT_BOUND, findings=(finding,), practices=()))["results"]
    assert place(result)["region"]["startLine"] == 58
    assert "no place of its own" in result["locations"][0]["message"]["text"]
    (result,) = run(replace(INPUT_BOUND, findings=(finding,), practices=(), loop=None))["results"]
    assert place(result)["artifactLocation"]["uri"] == "train.py"


def test_levels_are_those_of_the_judgement() -> None:
    levels = [one["level"] for one in run(INPUT_BOUND, judgement=Judgement(3.15))["results"]]
    assert levels == ["error", "warning", "note"]


def test_rules_are_the_catalogues() -> None:
    for rule in run(INPUT_BOUND)["tool"]["driver"]["rules"]:
        fix = by_id()[rule["id"]]
        assert rule["shortDescription"]["text"] == fix.summary
        assert rule["help"]["markdown"] == fix.documentation
        assert rule["fullDescription"]["text"]
        assert "## " not in rule["fullDescription"]["text"]
        assert "helpUri" not in rule  # there is no page that could be named


def test_a_finding_that_the_catalogue_does_not_know_has_its_title() -> None:
    finding = replace(PARALLEL_MAP, id="of_an_older_version")
    rules = run(replace(INPUT_BOUND, findings=(finding,)))["tool"]["driver"]["rules"]
    assert rules[0]["shortDescription"]["text"] == PARALLEL_MAP.title


def test_measured_and_predicted_are_properties_and_what_is_missing_is_not() -> None:
    first = run(ALL_OUTCOMES)["results"][0]["properties"]
    assert {
        "bound": 3.2,
        "speedup": 2.94,
        "low": 2.88,
        "high": 3.01,
        "outcome": "kept",
    }.items() <= first.items()
    untried = run(INPUT_BOUND)["results"]
    assert "speedup" not in untried[0]["properties"]
    assert "bound" not in untried[2]["properties"]


def test_fingerprints_survive_that_lines_move_but_tell_findings_apart() -> None:
    def prints(diagnosis: Diagnosis) -> list[str]:
        return [
            one["partialFingerprints"]["trainperfFinding/v1"] for one in run(diagnosis)["results"]
        ]

    def down(finding: Finding) -> Finding:
        sites = (
            replace(one, line=one.line + 9, end_line=one.end_line + 9) for one in finding.where
        )
        return replace(finding, where=tuple(sites))

    moved = tuple(down(one) for one in INPUT_BOUND.findings)
    assert prints(INPUT_BOUND) == prints(replace(INPUT_BOUND, findings=moved))
    assert len(set(prints(INPUT_BOUND))) == 3


def test_what_is_ignored_has_a_suppression_and_nothing_else_has() -> None:
    results = run(IGNORED)["results"]
    assert [len(one["suppressions"]) for one in results] == [0, 0, 1]
    (suppression,) = results[2]["suppressions"]
    assert suppression["kind"] == "inSource"
    assert suppression["location"]["physicalLocation"]["region"]["startLine"] == 30
    assert all("suppressions" not in one for one in run(INPUT_BOUND)["results"])


def test_without_suppressions_what_is_ignored_is_a_notification_only() -> None:
    found = run(IGNORED, suppressed=False)
    assert [one["ruleId"] for one in found["results"]] == ["tf_cache", "early_stopping"]
    told = [one["message"]["text"] for one in found["invocations"][0]["toolExecutionNotifications"]]
    assert any("tf_map_parallel (train.py:30)" in one for one in told)


def test_the_invocation_tells_how_it_ended_and_what_was_not_measured() -> None:
    (failed,) = run(FAILED)["invocations"]
    assert failed["executionSuccessful"] is False
    assert failed["exitCodeDescription"] == "failed"
    assert failed["endTimeUtc"] == "2026-11-21T06:50:00Z"
    assert failed["workingDirectory"]["uri"] == f"file://{CWD}/"
    notes = failed["toolExecutionNotifications"]
    assert {
        "level": "error",
        "message": {"text": "The script failed before a step could be timed."},
    } in notes
    assert any(
        one["message"]["text"].startswith("not measured: the three times: ") for one in notes
    )
    (fine,) = run(HEALTHY)["invocations"]
    assert fine["executionSuccessful"] is True


def test_a_healthy_run_has_no_results() -> None:
    assert run(HEALTHY)["results"] == []


# -------------------------------------------------------------------------------- fixes

SOURCE = """import tensorflow as tf
files = tf.data.Dataset.list_files("*")
ds = files.map(load)
ds = ds.batch(32)
model.fit(ds)
"""
FILE = f"{CWD}/train.py"


def patched(after: str, *wheres: int, file: str = "train.py", taken: int = 9) -> dict[str, Any]:
    """The fixes of findings at these lines, `taken` of which are in a patch to `after`."""
    findings = tuple(
        replace(PARALLEL_MAP, id=f"fix_{line}", where=(Site(f"{CWD}/{file}", line),))
        for line in wheres
    )
    ids = tuple(one.id for one in findings)[:taken]
    patch = Patch(unified(file, SOURCE, after), ids, root=CWD)
    told = run(replace(INPUT_BOUND, findings=findings, practices=(), patch=patch))
    return {one["ruleId"]: one["fixes"][0] for one in told["results"] if "fixes" in one}


def texts(fix: dict[str, Any]) -> list[str]:
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    return [one.get("insertedContent", {}).get("text", "") for one in change["replacements"]]


def test_a_finding_has_its_edit_as_a_fix() -> None:
    fixes = patched(SOURCE.replace("map(load)", "map(load, num_parallel_calls=8)"), 3)
    assert texts(fixes["fix_3"]) == [", num_parallel_calls=8"]
    (change,) = fixes["fix_3"]["artifactChanges"]
    region = {"startLine": 3, "startColumn": 20, "endLine": 3, "endColumn": 20}
    assert change["replacements"][0]["deletedRegion"] == region
    assert fixes["fix_3"]["description"]["text"] == PARALLEL_MAP.title


def test_each_finding_has_only_the_edits_at_its_place() -> None:
    after = SOURCE.replace("load)", "load, 8)").replace("32)", "32, True)")
    fixes = patched(after, 3, 4)
    assert texts(fixes["fix_3"]) == [", 8"]
    assert texts(fixes["fix_4"]) == [", True"]


def test_findings_that_share_an_edit_have_both_in_one_fix() -> None:
    after = "import os\n" + SOURCE.replace("load)", "load, 8)").replace("32)", "32, True)")
    fixes = patched(after, 3, 4)
    assert fixes["fix_3"] == fixes["fix_4"]
    assert texts(fixes["fix_3"]) == ["import os\n", ", 8", ", True"]
    assert fixes["fix_3"]["description"]["text"].startswith("these 2 go together")


def test_what_is_not_in_the_patch_has_no_fix() -> None:
    fixes = patched(SOURCE.replace("load)", "load, 8)"), 3, 4, taken=1)
    assert set(fixes) == {"fix_3"}


def test_a_fix_names_its_file_from_the_root_however_it_is_called() -> None:
    after = SOURCE.replace("load)", "load, 8)")
    (change,) = patched(after, 3, file="a b/ü.py")["fix_3"]["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "a%20b/%C3%BC.py"
