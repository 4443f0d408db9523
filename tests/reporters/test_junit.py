"""JUnit XML as a CI server counts it."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from reporters.hostile import NAMES, named
from reporters.samples import SAMPLES
from reporters.samples_observed import CWD, FAILED, HEALTHY, INPUT_BOUND, PARALLEL_MAP
from reporters.samples_tried import ALL_OUTCOMES
from trainperf.model import Diagnosis, Site
from trainperf.model.diagnosis import Ignored
from trainperf.report.level import Judgement
from trainperf.reporters.junit import render


def suite(diagnosis: Diagnosis, *judged: object, root: str = "") -> ElementTree.Element:
    text = render(diagnosis, judgement=Judgement(*judged), root=root)  # type: ignore[arg-type]
    found = ElementTree.fromstring(text.encode())
    (only,) = found
    cases = list(only.iter("testcase"))
    for each in (found, only):
        assert int(each.get("tests", "")) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(each.get(name, "")) == len(list(only.iter(tag)))
    return only


def outcomes(diagnosis: Diagnosis, *judged: object) -> dict[str | None, str]:
    return {
        case.get("name"): case[0].tag if len(case) else "passed"
        for case in suite(diagnosis, *judged).iter("testcase")
    }


def test_what_makes_the_check_fail_fails_and_the_rest_is_skipped() -> None:
    assert outcomes(INPUT_BOUND, 3.15, ("12 % slower",)) == {
        "check": "failure",
        "tf_map_parallel": "failure",
        "tf_cache": "skipped",
        "early_stopping": "skipped",
    }


def test_without_fail_on_nothing_fails() -> None:
    assert "failure" not in outcomes(ALL_OUTCOMES).values()


def test_a_check_that_cannot_tell_is_skipped_with_its_reason() -> None:
    judged = ("none", (), "check cannot tell: noise", True)
    assert outcomes(HEALTHY, *judged)["check"] == "skipped"
    assert next(suite(HEALTHY, *judged).iter("skipped")).get("message") == judged[2]
    assert outcomes(HEALTHY, "none", (), "check passed: fast")["check"] == "passed"


def test_a_healthy_run_is_one_case_that_passed() -> None:
    assert outcomes(HEALTHY, "any") == {"healthy": "passed"}


def test_a_run_that_failed_is_an_error_with_its_last_output() -> None:
    assert outcomes(FAILED) == {"run": "error"}
    error = next(suite(FAILED).iter("error"))
    assert error.get("message") == "The script failed before a step could be timed."
    assert "TypeError: build()" in (error.text or "")


def test_a_slow_run_of_unknown_cause_is_not_called_healthy() -> None:
    slow = replace(INPUT_BOUND, findings=(), practices=())
    assert outcomes(slow, "any") == {"nothing found": "passed"}


def test_a_run_without_a_step_is_an_error_and_not_healthy() -> None:
    no_step = replace(HEALTHY, times=replace(HEALTHY.times, real_s=None))
    assert outcomes(no_step) == {"run": "error"}


def test_what_is_ignored_is_skipped_and_says_why() -> None:
    ignored = (Ignored(PARALLEL_MAP, Site(f"{CWD}/train.py", 31)),)
    healthy = replace(HEALTHY, ignored=ignored)
    assert outcomes(healthy, "any") == {"tf_map_parallel": "skipped"}
    assert "ignored in the source" in next(suite(healthy).iter("skipped")).get("message", "")


def test_a_case_has_its_place_its_numbers_and_its_advice() -> None:
    case = next(suite(ALL_OUTCOMES, 1.5, root="/home/ada").iter("testcase"))
    assert (case.get("file"), case.get("line")) == ("flowers/train.py", "31")
    assert "2.94× (2.88 to 3.01) as fast, measured" in case[0].get("message", "")
    assert "num_parallel_calls=tf.data.AUTOTUNE" in (case[0].text or "")


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_is_xml(name: str) -> None:
    suite(SAMPLES[name], "any")


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_are_xml_and_no_more_cases(name: str) -> None:
    assert len(outcomes(named(name), "any", (name,))) == 4


def test_characters_that_xml_has_not_are_gone() -> None:
    finding = replace(PARALLEL_MAP, title="a\x00b\x08c\ufffed\uffffe\ud800f<&>\U0001f600")
    failure = next(suite(replace(INPUT_BOUND, findings=(finding,)), "any").iter("failure"))
    assert failure.get("message", "").startswith("abcde?f<&>\U0001f600: ")
