"""Every rule keeps the promises of the interface.

Its cases are the sources in `ID.txt`: `--- silent` and `--- fires`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from trainperf.fixes import by_id
from trainperf.fixes.rows import SetArgument, SetFlag, SetVariable
from trainperf.lint.rule import MEASURE, Remark, Repair, Rule
from trainperf.lint.rules import all_rules
from trainperf.source.module import Module

ROOT = Path(__file__).parents[2]
RULES = all_rules()
IDS = tuple(dict.fromkeys(rule.id for rule in RULES))

every_id = pytest.mark.parametrize("id_", IDS)
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@cache
def of(id_: str, kind: str) -> tuple[str, ...]:
    """The sources for the rules of an id, of this kind."""
    text = Path(__file__).with_name(f"{id_}.txt").read_text(encoding="utf-8")
    parts = re.split(r"^--- (silent|fires)\n", text, flags=re.MULTILINE)
    return tuple(
        source.strip("\n") + "\n"
        for each, source in zip(parts[1::2], parts[2::2], strict=True)
        if each == kind
    )


def cases(kind: str) -> pytest.MarkDecorator:
    params = [
        pytest.param(id_, case, id=f"{id_}-{number}")
        for id_ in IDS
        for number, case in enumerate(of(id_, kind))
    ]
    return pytest.mark.parametrize(("id_", "case"), params)


@cache
def remarks(source: str) -> tuple[Remark, ...]:
    """What all rules have to say."""
    module = Module(ast.parse(source), source)
    return tuple(remark for rule in RULES for remark in rule.remarks(module))


def test_every_file_of_cases_has_its_rule() -> None:
    files = [path.stem for path in Path(__file__).parent.glob("*.txt")]
    assert list(IDS) == sorted(files)


@every_rule
def test_a_rule_is_named_for_a_fix(rule: Rule) -> None:
    assert rule.id in by_id()


@every_id
def test_there_are_at_least_as_many_silent_cases(id_: str) -> None:
    assert len(of(id_, "silent")) >= len(of(id_, "fires")) > 0


@every_rule
def test_the_docstring_is_one_cell_of_a_table(rule: Rule) -> None:
    assert rule.summary.endswith(".")
    assert "|" not in rule.summary


@cases("silent")
def test_a_rule_stays_silent(id_: str, case: str) -> None:
    assert [one for one in remarks(case) if one.id == id_] == []


@cases("fires")
def test_a_rule_fires_once_and_no_other_does(id_: str, case: str) -> None:
    (found,) = remarks(case)
    assert found.id == id_
    assert 1 <= found.line <= found.last_line <= case.count("\n") + 1


@cases("fires")
def test_the_text_is_a_guess_and_says_who_knows(id_: str, case: str) -> None:
    (found,) = remarks(case)
    assert " may " in found.text
    assert found.text.endswith(f". {MEASURE}")
    assert "\n" not in found.text


REPAIRED = [
    pytest.param(case, found.repair, id=f"{id_}-{number}")
    for id_ in IDS
    for number, case in enumerate(of(id_, "fires"))
    for found in remarks(case)
    if found.repair is not None
]


@pytest.mark.parametrize(("case", "repair"), REPAIRED)
def test_a_repair_leaves_nothing_to_remark_on(case: str, repair: Repair) -> None:
    lines = case.split("\n")
    line = lines[repair.line - 1]
    lines[repair.line - 1] = line[: repair.column - 1] + repair.text + line[repair.end_column - 1 :]
    assert remarks("\n".join(lines)) == ()


def test_a_repair_writes_what_the_row_of_its_fix_writes() -> None:
    rows = {str(one.id).rpartition("-")[0]: one.values[1].text for one in REPAIRED}
    for id_, text in rows.items():
        edit = by_id()[id_].edit
        if isinstance(edit, SetArgument):
            assert text in (edit.value, f"{edit.name}={edit.value}")
        elif isinstance(edit, SetFlag):
            assert edit.line.endswith(f"= {text}")
    assert {"keras_run_eagerly", "torch_cudnn_benchmark", "torch_fused_optimizer"} <= set(rows)


def test_what_a_row_sets_is_not_remarked_on() -> None:
    for row in (fix.edit for fix in by_id().values()):
        if isinstance(row, SetVariable):
            lines = [f'os.environ["{name}"] = "{value}"' for name, value in row.values.items()]
            assert remarks("\n".join(["import os, torch", *lines, ""])) == ()
        elif isinstance(row, SetFlag):
            assert remarks(f"import {row.line.partition('.')[0]}\n{row.line}\n") == ()


def test_some_rules_can_repair() -> None:
    able = {str(one.id).rpartition("-")[0] for one in REPAIRED}
    assert {"keras_run_eagerly", "rnn_unroll", "torch_zero_grad", "torch_fused_optimizer"} <= able


def test_the_page_has_a_row_for_each_rule() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(rule.id, rule.summary) for rule in RULES]


def test_lint_loads_no_framework_and_no_catalogue(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)\n")
    code = (
        "import sys\nfrom trainperf.commands.lint import lint\n"
        f"try:\n    lint.main([{str(tmp_path)!r}])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'rich', 'trainperf.fixes.tf_data.cache', 'trainperf.rewrite'}\n"
        "print(heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch_debug_modes" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"
