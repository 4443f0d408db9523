"""A step by lines of the user's: where it passes, in every format, and no more than all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from reporters.pages import parsed
from reporters.rendering import section, text
from reporters.samples import BY_LINE, INPUT_BOUND, LINES, TORCH, over, timed
from trainperf.model import Category, Diagnosis, Loop, Missing, OwnCode, Site, StepLines
from trainperf.model import words as units
from trainperf.report.document import Lines, Page, SourceRow
from trainperf.report.sections import lines
from trainperf.report.sections.step import shares
from trainperf.reporters import reporter

LOSS = next(line for line in LINES["torch_triplets"].lines if line.where.line == 68)
"""`if other != anchor and labels[other] == labels[anchor]:`, in the loop of a loss."""


def of(name: str, **laid_over: Any) -> Diagnosis:
    """PyTorch's sample as if its step had been this one."""
    return over(TORCH, lines_=replace(LINES[name], **laid_over))


def rows(diagnosis: Diagnosis) -> tuple[SourceRow, ...]:
    page = Page(full=False)
    lines.tree(diagnosis, page)
    return next(block.rows for block in page.blocks if isinstance(block, Lines))


def moved(found: StepLines, file: str, line: int) -> StepLines:
    """Lines as if they stood in another file, so many lines further down."""
    own = [
        replace(each, where=Site(file, each.where.line + line, each.where.function), callers=())
        for each in found.lines
    ]
    return replace(found, lines=tuple(own))


# ---------------------------------------------------------------- what is not to be said


def test_nothing_is_said_of_lines_that_were_not_sampled() -> None:
    assert isinstance(TORCH.evidence.lines_, Missing)
    assert lines.HEADING not in text(TORCH) + text(TORCH, full=False)


def test_a_script_that_is_one_call_of_a_framework_has_no_lines_to_name_in_short() -> None:
    (fit,) = [line for line in LINES["keras_py_metric"].lines if line.call.endswith(".fit")]
    alone = over(INPUT_BOUND, lines_=replace(LINES["keras_py_metric"], lines=(fit,)))
    loop = Loop("fit", fit.where)
    assert lines.HEADING not in text(over(alone, loop=loop), full=False)
    assert "the framework's own work in `fit`" in section(lines.tree, over(alone, loop=loop))
    elsewhere = replace(loop, where=replace(fit.where, line=1))
    assert lines.HEADING in text(over(alone, loop=elsewhere), full=False)


def test_a_line_that_the_verdict_names_is_not_named_again_in_short() -> None:
    (heavy, *_) = LINES["torch_triplets"].lines
    alone = of("torch_triplets", lines=(replace(heavy, callers=()),), seconds=heavy.seconds)
    assert lines.HEADING in text(alone, full=False)
    named = f"100 % of each step passes in train.py:{heavy.where.line}."
    told = replace(alone, verdict=replace(alone.verdict, text=named))
    assert lines.HEADING not in text(told, full=False)
    assert lines.HEADING in text(told)


# ------------------------------------------------------------------------------ what it says


def test_a_line_whose_work_the_gpu_does_later_is_named_with_it() -> None:
    found = LINES["torch_triplets"]
    light = found.lines[-1]
    on_gpu = replace(light, device_s=0.8 * found.seconds)
    shown = section(lines.tree, of("torch_triplets", lines=(*found.lines[:-1], on_gpu)), full=False)
    assert f"; {units.seconds(0.8 * found.seconds)} on the GPU" in " ".join(shown.split())
    assert "on the GPU" not in section(lines.tree, of("torch_triplets"), full=False)


def test_a_function_of_many_light_lines_is_named_as_well() -> None:
    light = [
        replace(LOSS, where=replace(LOSS.where, line=at), seconds=0.02 * 0.045, parts=())
        for at in range(200, 220)
    ]
    found = rows(of("torch_triplets", lines=tuple(light), seconds=0.045))
    assert [(row.what, row.shown) for row in found] == [
        ("in `HardTripletLoss.forward`, 20 lines", "40 ± 8 %")
    ]


def test_of_two_functions_that_a_line_calls_both_are_named() -> None:
    beside, called = (replace(LOSS.where, line=line, function="step") for line in (90, 91))
    found = [replace(LOSS, where=beside, callers=(), seconds=0.2 * 0.045)]
    found += [
        replace(
            LOSS,
            where=replace(LOSS.where, line=at, function="loss" if at % 2 else "norm"),
            callers=(called,),
            seconds=0.02 * 0.045,
            parts=(),
        )
        for at in range(200, 240)
    ]
    shown = rows(of("torch_triplets", lines=tuple(found), seconds=0.045))
    assert [row.what for row in shown][:2] == ["calls `norm`", "in `loss`, 20 lines"]


@pytest.mark.parametrize(
    ("kind", "category", "counted", "told"),
    [
        ("small calls", "host", None, 0.65),
        ("small calls", "host", 0.001, 0.65),
        ("call", "host", None, 0.65),
        ("call", "host", 0.001, 0.0),  # counted as host work
        ("call", "input", None, 0.0),  # counted as waiting for data
    ],
)
def test_the_bar_shows_what_the_verdict_says_of_a_function(
    kind: str, category: Category, counted: float | None, told: float
) -> None:
    code = OwnCode("`loss_of`", kind, "", 0.65)
    own = replace(TORCH.findings[0], id="own_function", category=category, own=code)
    other = timed(TORCH, real=0.1, resident=0.1, host=counted)
    bar = shares(replace(other, findings=(own,)))
    seconds = sum(part for name, part, _ in bar if name == "your own `loss_of`")
    assert seconds == pytest.approx(0.1 * told)
    assert sum(part for _, part, _ in bar) == pytest.approx(0.1)


def test_the_tree_says_what_a_line_calls_and_in_short_only_the_heaviest() -> None:
    told = section(lines.tree, BY_LINE, width=120)
    assert "self.quantizer(self.encoder(x)) itself 14 ± 5 %: operators" in told
    assert "train.py:85 calls `VQVAE.forward`" in told
    short = section(lines.tree, BY_LINE, width=120, full=False)
    assert "41 ± 7 % train.py:83 images, _ = next(iter(loader)) input" in short
    assert "optimizer.step()" in told
    assert "optimizer.step()" not in short


def test_source_is_cut_at_its_end_and_a_path_at_its_beginning() -> None:
    ratio = replace(LOSS, text="total = total + weights[anchor, other] / scale.sum() / count")
    assert "total = total + wei" in section(lines.tree, of("torch_triplets", lines=(ratio,)), 50)
    far = moved(LINES["torch_triplets"], "/elsewhere/" + "deep/" * 20 + "losses.py", 0)
    assert "losses.py:68" in section(lines.tree, over(TORCH, lines_=far), 60)


def test_a_line_of_a_notebook_is_a_line_of_its_cell_in_every_format() -> None:
    found = over(TORCH, lines_=moved(LINES["torch_triplets"], f"{TORCH.cwd}/a.ipynb", 3000))
    for name in ("markdown", "html"):
        page = reporter(name)(found) or ""
        assert "cell 3, line 68" in page
        assert "3068" not in page
    assert "cell 3, line 68" in text(found, full=False)
    report = json.loads(reporter("json")(found) or "")
    assert 3068 in [line["where"]["line"] for line in report["evidence"]["lines"]["lines"]]


def test_in_markdown_the_lines_are_a_table_and_on_a_page_each_has_its_bar() -> None:
    table = reporter("markdown")(BY_LINE) or ""
    assert "| 41 ± 7 % | `train.py:83` | `images, _ = next(iter(loader))` | input |" in table
    assert table.index("### By line,") < table.index("### What to change")
    step = parsed(reporter("html")(BY_LINE) or "").at("step")
    assert "images, _ = next(iter(loader))train.py:83 · input" in " ".join(step.text.split())
