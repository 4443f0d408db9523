"""SARIF and GitHub's commands: what a CI server reads out of a diagnosis."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest

from reporters.samples import (
    CACHE,
    CWD,
    DECODE,
    FAILED,
    HEALTHY,
    INPUT_BOUND,
    NOTHING_KEPT,
    PARALLEL_MAP,
    TRIED,
    over,
)
from reporters.test_every_report import checked, commands
from trainperf.fixes import by_id
from trainperf.model import Diagnosis, Finding, Loop, Outcome, Site, Trial
from trainperf.model.diagnosis import Ignored
from trainperf.report.level import Judgement
from trainperf.reporters import github, sarif

IGNORED = replace(
    INPUT_BOUND, findings=(CACHE,), ignored=(Ignored(PARALLEL_MAP, Site(DECODE.file, 30)),)
)
BETWEEN = ((CACHE.bound or 0.0) + (PARALLEL_MAP.bound or 0.0)) / 2
"""What the first finding may give, and the second may not."""


def only(*findings: Finding) -> Diagnosis:
    return replace(INPUT_BOUND, findings=findings)


def run(diagnosis: Diagnosis, **options: Any) -> dict[str, Any]:
    log = json.loads(sarif.render(diagnosis, **options))
    (found,) = log["runs"]
    for result in checked(log):
        assert found["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return dict(found)


def place(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["locations"][0]["physicalLocation"])


# --------------------------------------------------------------------------------- SARIF


def test_a_result_points_to_its_call_from_1_with_an_exclusive_end() -> None:
    found = run(INPUT_BOUND)
    assert found["columnKind"] == "unicodeCodePoints"
    assert place(found["results"][1]) == {
        "artifactLocation": {"uri": "slow_images.py", "uriBaseId": "%SRCROOT%"},
        "region": {
            "startLine": DECODE.line,
            "startColumn": DECODE.col + 1,
            "endLine": DECODE.end_line,
            "endColumn": DECODE.end_col + 1,
        },
    }
    assert "%SRCROOT%" in found["originalUriBaseIds"]
    outside = place(run(INPUT_BOUND, root="/elsewhere")["results"][0])["artifactLocation"]
    assert outside == {"uri": f"file://{DECODE.file}"}


@pytest.mark.parametrize("name", ["a b.py", "ä%20#?.py", "\udce9.py", "a:b.py"])
def test_names_of_files_are_percent_encoded(name: str) -> None:
    finding = replace(PARALLEL_MAP, where=(Site(f"{CWD}/sub/{name}", 7), Site(f"{CWD}/b.py", 9)))
    (result,) = run(only(finding))["results"]
    assert place(result)["region"] == {"startLine": 7}
    uri = place(result)["artifactLocation"]["uri"]
    assert uri.isascii()
    assert not set(uri) & set(" #?:")
    assert unquote(uri, errors="surrogateescape") == f"sub/{name}"
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["region"]["startLine"] == 9


def test_a_finding_without_a_place_is_at_the_loop_and_says_so() -> None:
    bare = only(replace(PARALLEL_MAP, where=()))
    (result,) = run(bare)["results"]
    assert INPUT_BOUND.loop is not None
    assert INPUT_BOUND.loop.where is not None
    assert place(result)["region"]["startLine"] == INPUT_BOUND.loop.where.line
    assert "no place of its own" in result["locations"][0]["message"]["text"]
    (result,) = run(over(bare, loop=Loop("")))["results"]
    assert place(result)["artifactLocation"]["uri"] == "slow_images.py"


def test_rules_are_the_catalogues_and_levels_those_of_the_judgement() -> None:
    found = run(INPUT_BOUND, judgement=Judgement(BETWEEN))
    assert [one["level"] for one in found["results"]] == ["error", "warning"]
    for rule in found["tool"]["driver"]["rules"]:
        fix = by_id()[rule["id"]]
        assert rule["shortDescription"]["text"] == fix.summary
        assert rule["help"]["markdown"] == fix.documentation
    (rule,) = run(only(replace(CACHE, id="of_an_older_version")))["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"] == CACHE.title


def test_fingerprints_survive_that_lines_move_but_tell_findings_apart() -> None:
    def prints(diagnosis: Diagnosis) -> list[str]:
        key = "trainperfFinding/v1"
        return [one["partialFingerprints"][key] for one in run(diagnosis)["results"]]

    def down(finding: Finding) -> Finding:
        return replace(
            finding, where=tuple(replace(one, line=one.line + 9) for one in finding.where)
        )

    moved = replace(INPUT_BOUND, findings=tuple(map(down, INPUT_BOUND.findings)))
    assert prints(INPUT_BOUND) == prints(moved)
    assert len(set(prints(INPUT_BOUND))) == 2


def test_what_was_measured_is_a_property_and_what_is_missing_is_not() -> None:
    kept = run(TRIED)["results"][0]["properties"]
    trial = TRIED.trials[0]
    assert (kept["speedup"], kept["low"], kept["outcome"]) == (trial.speedup, trial.low, "kept")
    assert "speedup" not in run(INPUT_BOUND)["results"][0]["properties"]


def test_the_invocation_tells_how_it_ended_what_was_ignored_and_what_not_measured() -> None:
    (failed,) = run(FAILED)["invocations"]
    assert (failed["executionSuccessful"], failed["exitCodeDescription"]) == (False, "failed")
    notes = {one["message"]["text"]: one["level"] for one in failed["toolExecutionNotifications"]}
    assert notes["The script failed before a step could be timed."] == "error"
    *shown, ignored = run(IGNORED)["results"]
    assert [one["ruleId"] for one in shown] == ["tf_cache"]
    (why,) = ignored["suppressions"]
    assert why["location"]["physicalLocation"]["region"]["startLine"] == 30
    found = run(IGNORED, suppressed=False)
    assert found["results"] == [
        {key: value for key, value in one.items() if key != "suppressions"} for one in shown
    ]
    (fine,) = found["invocations"]
    assert fine["executionSuccessful"] is True
    told = [one["message"]["text"] for one in fine["toolExecutionNotifications"]]
    assert any("tf_map_parallel (slow_images.py:30)" in one for one in told)
    assert any(one.startswith("not measured: ") for one in told)
    assert run(HEALTHY)["results"] == []


# ------------------------------------------------------------------- GitHub's commands


def test_what_was_tried_and_is_not_kept_has_the_advice_by_hand() -> None:
    told = next(one for one in run(NOTHING_KEPT)["results"] if one["ruleId"] == "tf_generator")
    (finding,) = (one for one in NOTHING_KEPT.findings if one.id == "tf_generator")
    for text in (told["message"]["text"], github.render(NOTHING_KEPT)):
        assert "By hand: make the samples once" in text
        assert finding.advice not in text


def kinds(diagnosis: Diagnosis, *judged: Any) -> list[str]:
    return [one["kind"] for one in commands(diagnosis, *judged)]


def test_a_finding_is_a_warning_at_its_place() -> None:
    second = commands(INPUT_BOUND)[1]
    assert second["kind"] == "warning"
    assert "file=slow_images.py" in second["properties"]
    assert f"line={DECODE.line}" in second["properties"]
    assert second["message"].startswith("At most 1.72× as fast (the serial maps spread")
    assert "trainperf explain tf_map_parallel" in second["message"]
    assert "file=examples/slow_images.py" in github.render(
        INPUT_BOUND, root=CWD[: -len("/examples")]
    )
    assert "file=" not in github.render(only(CACHE), root="/elsewhere")
    long = only(replace(CACHE, where=(Site(f"{CWD}/a.py", 3, "f", 4, 7, 5),)))
    assert "line=3,endLine=7" in github.render(long)


def test_what_makes_the_check_fail_is_an_error_and_comes_first() -> None:
    judged = (BETWEEN, ("12 % slower",))
    assert kinds(INPUT_BOUND, *judged) == ["error", "error", "warning"]
    assert commands(INPUT_BOUND, *judged)[0]["message"] == "12 %25 slower"
    untold = ("none", (), "check cannot tell: noise")
    assert kinds(HEALTHY, *untold, True) == ["warning"]
    assert kinds(HEALTHY, *untold, False) == ["notice"]
    assert kinds(HEALTHY) == []
    assert set(kinds(NOTHING_KEPT)) == {"notice"}


def test_a_script_that_failed_is_an_error_with_its_last_words() -> None:
    (one,) = commands(FAILED)
    assert one["kind"] == "error"
    assert "The script failed before a step could be timed." in one["message"]
    assert "Its last output: TypeError: build() got" in one["message"]
    (silent,) = commands(replace(FAILED, output_tail=""))
    assert "Its last output" not in silent["message"]


@pytest.mark.parametrize(("fail_on", "kind"), [("none", "warning"), ("any", "error")])
def test_no_more_than_ten_of_a_kind_are_said_and_the_rest_is_counted(
    fail_on: str, kind: str
) -> None:
    many = tuple(replace(CACHE, id=f"fix_{n}", bound=2.0 + n) for n in range(14))
    found = commands(only(*many), fail_on)
    assert [one["kind"] for one in found] == [kind] * 10 + ["notice"]
    assert found[-1]["message"].startswith(f"4 {kind}s not shown here")
    assert kinds(only(*many[:10]), fail_on) == [kind] * 10
    vain = tuple(Trial(finding.id, Outcome.NO_EFFECT, "") for finding in many)
    notes = commands(replace(only(*many), trials=vain))
    assert [one["kind"] for one in notes] == ["notice"] * 10
    assert notes[-1]["message"].startswith("5 notes not shown here")
