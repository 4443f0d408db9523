"""The documents say how the program behaves."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import click
import pytest

from trainperf.commands import cli
from trainperf.fixes import all_fixes
from trainperf.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOT_OURS = {
    "--batch-size",
    "--cpus",
    "--cpus-per-task",
    "--epochs",
    "--from",
    "--ipc",
    "--memory",
    "--shm-size",
    "--nnodes",
    "--no-python",
    "--nproc_per_node",
    "--ntasks-per-node",
    "--with",
}
"""Options of the scripts, of containers, of torchrun and of uv."""


def set_up_commands() -> list[str]:
    """The README's commands that make an environment: each starts in a fresh clone."""
    blocks = re.findall(r"```(?:console|sh|bash)?\n(.*?)```", README, re.DOTALL)
    text = "\n".join(blocks).replace("\\\n", "")
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if "-m venv" in line]


def test_the_readmes_example_exists() -> None:
    for script in re.findall(r"examples/\w+\.py", README):
        assert (ROOT / script).exists()


def test_ci_runs_the_readmes_test_command() -> None:
    words = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace('"$venv"', ".venv-test")
    assert set_up_commands()[1] in words


def test_ci_finds_what_it_marks_by_the_names_of_the_markers_in_files_of_tests() -> None:
    others = {
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"mark\.(script|alone)\b", path.read_text(encoding="utf-8"))
        and not path.name.startswith("test_")
    }
    assert others == {"gpu_kit.py"}, "what is marked from elsewhere CI does not collect"
    kit = (ROOT / "tests" / "gpu" / "gpu_kit.py").read_text(encoding="utf-8")
    assert kit.count("mark.alone") == kit.count("mark.alone, pytest.mark.long]")


def options(command: click.Command) -> set[str]:
    names = {name for option in command.params for name in option.opts if name.startswith("--")}
    if isinstance(command, click.Group):
        for each in command.commands.values():
            names |= options(each)
    return names | {"--help", "--version"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_the_documents_mention_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    spans = re.findall(r"`[^`\n]*`", text) + [
        line for line in text.splitlines() if "trainperf diagnose" in line
    ]
    mentioned = {
        name
        for span in spans
        if "pip" not in span and "ruff" not in span and "mypy" not in span
        for name in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)
    }
    assert mentioned - options(cli.cli) - NOT_OURS == set()


def test_every_option_of_diagnose_is_in_the_settings_page() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name in options(cli.cli.commands["diagnose"]) - {"--help", "--version"}:
        assert f"`{name}`" in page


def test_the_settings_page_names_every_setting() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    fields = {
        each.name.removesuffix("_s").replace("_", "-") for each in dataclasses.fields(Settings)
    }
    assert rows == fields


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.suffix == ".md"], ids=lambda p: p.name
)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    for link in links:
        if not link.startswith(("http:", "https:")):
            assert (page.parent / link).exists(), link


def test_every_fix_that_the_documents_ignore_exists() -> None:
    ids = {fix.id for fix in all_fixes()}
    for page in PAGES:
        for names in re.findall(r"ignore = \[(.*?)\]", page.read_text(encoding="utf-8")):
            assert set(re.findall(r'"(\w+)"', names)) <= ids
