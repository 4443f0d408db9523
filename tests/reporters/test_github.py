"""GitHub's workflow commands: what the runner reads out of them is what was meant."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from reporters.hostile import NAMES, named
from reporters.samples import SAMPLES
from reporters.samples_observed import CWD, FAILED, HEALTHY, INPUT_BOUND, PARALLEL_MAP
from reporters.samples_tried import ALL_OUTCOMES
from trainperf.model import Diagnosis, Site
from trainperf.report.level import Judgement
from trainperf.reporters.github import render


@dataclass(frozen=True)
class Command:
    kind: str
    properties: dict[str, str]
    message: str


def read(text: str) -> list[Command]:
    """Read commands as the runner does."""
    found = []
    for line in text.split("\n"):
        match = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
        assert match, line
        pairs = (pair.split("=", 1) for pair in match[2].split(","))
        properties = {name: unescaped(value, ("%3A", ":"), ("%2C", ",")) for name, value in pairs}
        found.append(Command(match[1], properties, unescaped(match[3])))
    return found


def unescaped(text: str, *more: tuple[str, str]) -> str:
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
        text = text.replace(code, sign)
    return text


def commands(
    diagnosis: Diagnosis, fail_on: str | float = "none", *problems: str, root: str = ""
) -> list[Command]:
    return read(render(diagnosis, judgement=Judgement(fail_on, problems), root=root))


def many(count: int) -> Diagnosis:
    found = tuple(replace(PARALLEL_MAP, id=f"fix_{n}", bound=2.0 + n) for n in range(count))
    return replace(INPUT_BOUND, findings=found, practices=())


def test_a_finding_is_a_warning_at_its_place() -> None:
    first = commands(INPUT_BOUND)[0]
    assert first.kind == "warning"
    assert first.properties == {
        "file": "train.py",
        "line": "31",
        "title": "trainperf: Run `map(load_image)` on several cores",
    }
    assert first.message.startswith("At most 3.2× as fast.\n`load_image` runs on one core")
    assert "trainperf explain tf_map_parallel" in first.message


def test_what_makes_the_check_fail_is_an_error_and_comes_first() -> None:
    kinds = [one.kind for one in commands(INPUT_BOUND, 3.15, "12 % slower")]
    assert kinds == ["error", "error", "warning", "notice"]
    assert commands(INPUT_BOUND, 3.15, "12 % slower")[0].message == "12 % slower"


@pytest.mark.parametrize(("undecided", "kind"), [(False, "notice"), (True, "warning")])
def test_a_check_that_cannot_tell_warns(undecided: bool, kind: str) -> None:
    judged = Judgement("none", (), "check cannot tell: noise", undecided)
    found = read(render(INPUT_BOUND, judgement=judged))
    (check,) = (one for one in found if one.properties["title"] == "trainperf check")
    assert (check.kind, check.message) == (kind, "check cannot tell: noise")


def test_what_was_tried_and_does_not_pay_and_practices_are_notices() -> None:
    found = commands(ALL_OUTCOMES)
    kinds = {one.properties["title"].removeprefix("trainperf: "): one.kind for one in found}
    assert kinds["Run `map(load_image)` on several cores"] == "warning"
    assert kinds["Run several steps in one call"] == "notice"
    assert kinds["Stop when the validation loss no longer falls"] == "notice"


def test_a_script_that_failed_is_an_error() -> None:
    (only,) = commands(FAILED)
    assert only.kind == "error"
    assert only.message.startswith("train.py: The script failed before a step could be timed.")


def test_a_healthy_run_says_nothing() -> None:
    assert render(HEALTHY) == ""


def test_files_are_relative_to_the_root_and_left_out_beyond_it() -> None:
    assert commands(INPUT_BOUND, root="/home/ada")[0].properties["file"] == "flowers/train.py"
    for root in (f"{CWD}/src", "/home/ad", "/elsewhere"):
        assert set(commands(INPUT_BOUND, root=root)[0].properties) == {"title"}


def test_a_call_over_several_lines_names_the_last() -> None:
    finding = replace(PARALLEL_MAP, where=(Site(f"{CWD}/a.py", 3, "f", 4, 7, 5),))
    (found,) = commands(replace(INPUT_BOUND, findings=(finding,), practices=()))
    assert (found.properties["line"], found.properties["endLine"]) == ("3", "7")


@pytest.mark.parametrize(("fail_on", "kind"), [("none", "warning"), ("any", "error")])
def test_no_more_than_ten_of_a_kind_are_said_and_the_rest_is_counted(
    fail_on: str, kind: str
) -> None:
    found = commands(many(14), fail_on)
    assert [one.kind for one in found] == [kind] * 10 + ["notice"]
    assert found[-1].message.startswith(f"4 {kind}s not shown here")
    assert [one.kind for one in commands(many(10), fail_on)] == [kind] * 10


def test_the_count_is_one_of_ten_notices() -> None:
    practices = many(14).findings
    found = commands(replace(INPUT_BOUND, findings=(), practices=practices))
    assert [one.kind for one in found] == ["notice"] * 10
    assert found[-1].message.startswith("5 notes not shown here")


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_makes_no_command_and_no_property(name: str) -> None:
    found = commands(named(name), "any", name)
    assert [one.kind for one in found] == ["error", "error", "error", "notice"]
    for one in found:
        assert set(one.properties) <= {"file", "line", "endLine", "title"}
        assert one.properties.get("line", "3") == "3"


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_can_be_read(name: str) -> None:
    text = render(SAMPLES[name], judgement=Judgement("any"))
    assert text == "" or read(text)
    text.encode()


def test_a_script_that_failed_is_told_with_its_last_words() -> None:
    (only,) = commands(replace(FAILED, output_tail="loading\nno file data.csv: set DATA\n\n"))
    assert only.message.endswith("\nIts last output: no file data.csv: set DATA")
    (silent,) = commands(replace(FAILED, output_tail=""))
    assert "Its last output" not in silent.message
