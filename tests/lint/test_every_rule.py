"""Every rule keeps the promises of the interface.

Its cases are the sources in `rules.txt`: `--- silent ID…` and `--- fires ID`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainperf.fixes import by_id
from trainperf.fixes.rows import SetArgument
from trainperf.lint.rules import MEASURE, Remark, all_rules
from trainperf.source.module import Module

ROOT = Path(__file__).parents[2]
IDS = tuple(dict.fromkeys(rule.id for rule in all_rules()))


def cases(kind: str) -> list[tuple[str, str]]:
    """The ids and the source of each case of this kind."""
    text = Path(__file__).with_name("rules.txt").read_text(encoding="utf-8")
    parts = re.split(r"^--- (silent|fires) (.*)\n", text, flags=re.MULTILINE)
    triples = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return [(ids, source.strip("\n") + "\n") for each, ids, source in triples if each == kind]


def remarks(source: str) -> list[Remark]:
    """What all rules have to say."""
    module = Module(ast.parse(source), source)
    return [remark for rule in all_rules() for remark in rule.remarks(module)]


def test_every_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    assert tuple(dict.fromkeys(ids for ids, _ in cases("fires"))) == IDS
    silent = {id_ for ids, _ in cases("silent") for id_ in ids.split()}
    assert set(IDS) <= silent <= set(by_id())


@pytest.mark.parametrize(("ids", "case"), cases("silent"))
def test_a_rule_stays_silent(ids: str, case: str) -> None:
    assert remarks(case) == []


@pytest.mark.parametrize(("id_", "case"), cases("fires"))
def test_a_rule_fires_once_says_what_may_be_done_and_who_knows(id_: str, case: str) -> None:
    (found,) = remarks(case)
    assert found.id == id_
    assert 1 <= found.line <= found.last_line <= case.count("\n")
    assert found.text.endswith(f" may be slow. {by_id()[id_].summary} {MEASURE}")


def test_what_a_row_sets_is_not_remarked_on() -> None:
    for row in (fix.edit for fix in by_id().values()):
        if isinstance(row, SetArgument) and "{" not in row.value:
            assert remarks(f"f(num_workers=2, {row.name}={row.value})") == []


def test_the_page_has_a_row_for_each_rule() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \| .*\. \|$", page, re.MULTILINE)) == IDS


def test_lint_loads_no_framework(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)\n")
    code = (
        "import sys\nfrom trainperf.commands.lint import lint\n"
        f"try:\n    lint.main([{str(tmp_path)!r}])\nexcept SystemExit:\n    pass\n"
        "print({'torch', 'numpy', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch_debug_modes" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"
