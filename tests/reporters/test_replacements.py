"""A diff taken apart into replacements does to a file what the diff does."""

from __future__ import annotations

import random

import pytest

from trainperf.reporters.sarif.fixes import Replacement, replacements
from trainperf.rewrite.diff import unified

BEFORE = "import keras\n\nx = 1\nmodel.fit(x, epochs=3)\nprint('ö', x)\n"


def made(text: str, those: tuple[Replacement, ...]) -> str:
    """Replace as SARIF says: lines end at line feeds, columns count characters from 1."""
    lines = text.removeprefix("\ufeff").split("\n")

    def offset(line: int, column: int) -> int:
        return sum(len(one) + 1 for one in lines[: line - 1]) + column - 1

    marked = len(text) - len("\n".join(lines))
    result = text
    for one in reversed(those):
        start, end = (
            offset(line, column) + marked
            for line, column in ((one.line, one.column), (one.end_line, one.end_column))
        )
        result = result[:start] + one.text + result[end:]
    return result


@pytest.mark.parametrize(
    "after",
    [
        BEFORE.replace("epochs=3", "epochs=3, workers=4"),
        BEFORE.replace("x = 1\n", ""),
        BEFORE.replace("keras\n", "keras\nimport torch\n"),
        f"import os\n{BEFORE}",
        f"{BEFORE}print(1)\n",
        BEFORE[:-1],
        BEFORE.replace("'ö', x", "'ö', 'ü', x"),
        BEFORE.replace("x = 1", "-- x\n++ y"),
        "",
    ],
)
@pytest.mark.parametrize("form", ["{}", "\ufeff{}"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_replacements_make_of_a_file_what_the_diff_makes(
    after: str, form: str, ending: str
) -> None:
    first, second = (form.format(one).replace("\n", ending) for one in (BEFORE, after))
    assert made(first, replacements(unified("train.py", first, second))["train.py"]) == second


def test_many_changes_at_once_are_all_made_and_do_not_overlap() -> None:
    chance = random.Random(7)
    for _ in range(200):
        first = [f"line {chance.randrange(4)}" for _ in range(chance.randrange(1, 30))]
        second = [each for each in first if chance.random() > 0.2]
        second.insert(chance.randrange(len(second) + 1), "new")
        texts = ["\n".join(one) + chance.choice(["", "\n"]) for one in (first, second)]
        those = replacements(unified("a.py", *texts)).get("a.py", ())
        assert made(texts[0], those) == texts[1]
        ends = [(0, 0)] + [(one.end_line, one.end_column) for one in those]
        starts = [(one.line, one.column) for one in those]
        assert all(end <= start for end, start in zip(ends, starts, strict=False))


def test_a_region_is_no_larger_than_the_change() -> None:
    diff = unified("a.py", BEFORE, BEFORE.replace("epochs=3", "epochs=30"))
    assert replacements(diff) == {"a.py": (Replacement(4, 22, 4, 22, "0"),)}


@pytest.mark.parametrize("path", ["a b.py", 'we"ird\\.py', "tab\tand\nline.py", "--- x.py"])
def test_a_file_is_found_by_any_name(path: str) -> None:
    assert set(replacements(unified(path, "a\n", "b\n"))) == {path}


def test_a_file_that_is_no_text_is_left_out_and_others_are_not() -> None:
    diff = unified("a.py", "x = '\udce9'\n", "y = '\udce9'\n") + unified("b.py", "a\n", "b\n")
    assert set(replacements(diff)) == {"b.py"}


def test_an_empty_diff_replaces_nothing() -> None:
    assert replacements("") == {}
