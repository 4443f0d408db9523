"""Diagnoses of some examples as users start them; the zoo's oracle has the answer on each."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import zoo
from kit.processes import reported, tries

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

EXAMPLES = Path(__file__).parents[2] / "examples"

TRIES = 3
"""A neighbour's burst may hide a cause in one run; it does not hide it in three."""


@dataclass(frozen=True)
class Said:
    """The answer on a script: the bottleneck, and which finding comes first.

    `where` is text of the line the finding points to. Where `among` is above 1, the
    finding may stand behind others that are as true on some machines. `says` are words
    that the verdict must use.
    """

    script: Path
    bottleneck: str
    first: str = ""
    where: str = ""
    among: int = 1
    patched: bool = False
    says: tuple[str, ...] = ()


CASES = [
    # a cache of what it decodes, ahead of what it draws, is worth more, and takes a size
    Said(EXAMPLES / "slow_images.py", "input", "tf_map_parallel", "files.map(load_image)", 2, True),
    Said(EXAMPLES / "torch_step_logging.py", "host", "torch_step_logging", says=("`log`",)),
    Said(EXAMPLES / "small_files.py", "input|storage", "tf_cache", ".map(load", 1, True),
    Said(EXAMPLES / "torch_healthy.py", "none|model"),
]


SENTINELS = ("slow_images",)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.sentinel] if case.script.stem in SENTINELS else [])
        for case in CASES
    ],
    ids=lambda case: case.script.stem,
)
def test_the_planted_cause_comes_first_and_a_healthy_script_stays_clean(
    case: Said, tmp_path: Path
) -> None:
    wrong = ""
    for attempt in tries(case.script.name, TRIES):
        folder = tmp_path / str(attempt)
        shutil.copytree(case.script.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
        words = ("--no-trials", "--budget", "90s", "--patch", "fixes.patch", case.script.name)
        report = reported(folder, *words)
        kept_by_small_files = Path(os.environ["TMPDIR"]) / "recordings"
        shutil.rmtree(kept_by_small_files, ignore_errors=True)
        _patch_applies(folder)
        wrong = _wrong(case, report)
        if not wrong:
            return
    pytest.fail(wrong)


def test_every_example_is_in_the_zoo_and_told_of() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    recorded = {Path(one.path).name for one in zoo.SCRIPTS.values() if "examples" in one.path}
    assert scripts == recorded
    told = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(scripts) if f"## {name}" not in told] == []


def _patch_applies(folder: Path) -> None:
    if (folder / "fixes.patch").stat().st_size == 0:
        return
    # A folder inside a repository would have git look for the files from its root.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    for arguments in (["--check"], []):
        subprocess.run(
            ["git", "apply", *arguments, "fixes.patch"], cwd=folder, check=True, env=environment
        )
    for path in folder.glob("*.py"):
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)


def _wrong(case: Said, report: dict[str, Any]) -> str:
    """The faults of a report, or nothing."""
    verdict, findings = report["verdict"], report["findings"]
    ids = [finding["id"] for finding in findings]
    said = f"{verdict['text']} Findings: {ids or 'none'}"
    if verdict["bottleneck"] not in case.bottleneck.split("|"):
        return f"expected {case.bottleneck}: {said}"
    if any(words not in verdict["text"] for words in case.says):
        return f"expected {case.says} in the verdict: {said}"
    if not case.first:
        # Noise, or a probe for which no time was left, leave it open; a settled one is healthy.
        clean = verdict["healthy"] or verdict["grade"] != "settled"
        return "" if clean and not ids else f"expected no findings: {said}"
    if case.first not in ids[: case.among]:
        return f"expected {case.first} first: {said}"
    return _wrong_place(case, findings[ids.index(case.first)], report)


def _wrong_place(case: Said, finding: dict[str, Any], report: dict[str, Any]) -> str:
    """Whether the finding points at another line, or its edit is not in the patch."""
    lines = case.script.read_text(encoding="utf-8").splitlines()
    pointed = [
        lines[place["line"] - 1]
        for place in finding["where"]
        if Path(place["file"]).name == case.script.name
    ]
    if case.where and not any(case.where in line for line in pointed):
        return f"{case.first} points at {pointed}, not at {case.where!r}"
    if case.patched and case.first not in report["patch"]["findings"]:
        return f"the patch leaves {case.first} out: {report['patch']}"
    return ""
