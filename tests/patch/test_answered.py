"""Findings of code that the patch edits are answered; those of other code are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriting import finding_of
from trainperf.fixes import by_id
from trainperf.model import Finding, Site
from trainperf.patch.patch import answered
from trainperf.rewrite.script import default_reader

BEFORE = """\
def act(model, states):
    total = 0
    for state in states:
        action = model.predict(state)
        total += score(
            action,
        )
    return summary(total)


for epoch in range(9):
    model.fit(data)
    act(model, states)
"""
FIT = 12


def finding(file: Path, *lines: int) -> Finding:
    return finding_of(
        by_id()["own_function"],
        title="`act` takes the step",
        text="",
        bound=2.0,
        bound_basis="",
        where=tuple(Site(str(file), line, "act") for line in lines),
    )


def is_answered(folder: Path, after: str, *lines: int) -> bool:
    file = folder / "train.py"
    file.write_text(BEFORE)
    one, made = finding(file, *lines), {str(file): after.encode()}
    return answered([one], made, Site(str(file), FIT), default_reader) == (one,)


IN_LOOP = BEFORE.replace("model.predict(", "model.predict_on_batch(")
IN_TRAINING = BEFORE.replace("fit(data)", "fit(data.prefetch(2))")
ABOVE = "import time\n" + BEFORE
SPLIT = BEFORE.replace("            action,\n", "            action, 1\n")


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (IN_LOOP, (8,)),  # in the same function, behind the loop
        (IN_LOOP, (1,)),
        (IN_LOOP, (4, 8)),  # one of two places only
        (IN_LOOP, (13,)),  # where it is called
        (IN_TRAINING, (13,)),  # in the loop that trains
        (IN_TRAINING, (4,)),
        (ABOVE, (4,)),  # nothing of it changes, though all lines move
        (BEFORE, (4,)),
        (IN_LOOP, (99,)),
        (IN_LOOP, ()),
    ],
)
def test_other_code_stays_a_finding(tmp_path: Path, after: str, lines: tuple[int, ...]) -> None:
    assert not is_answered(tmp_path, after, *lines)


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (IN_LOOP, (4,)),
        (IN_LOOP, (3,)),  # the head of the loop
        (IN_LOOP, (5,)),  # another line of the same loop
        (IN_LOOP, (4, 5)),
        (SPLIT, (5,)),  # a later line of the statement
        (IN_TRAINING, (12,)),  # the very line, though it trains
    ],
)
def test_code_that_the_patch_edits_is_answered(
    tmp_path: Path, after: str, lines: tuple[int, ...]
) -> None:
    assert is_answered(tmp_path, after, *lines)


def test_a_file_that_cannot_be_read_answers_nothing(tmp_path: Path) -> None:
    one, made = finding(tmp_path / "train.py", 4), {str(tmp_path / "train.py"): IN_LOOP.encode()}
    assert answered([one], made, None, default_reader) == ()
