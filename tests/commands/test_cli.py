"""The command line: what is an option of ours, and what belongs to the script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reporters.samples import INPUT_BOUND
from trainperf import store
from trainperf.commands import session
from trainperf.commands.cli import cli, main


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Catch what would be run; the report of a sample is printed instead."""
    caught = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train.py").write_text("x = 1\n")

    def run(target, settings, console):
        caught.update(target=target, settings=settings)
        return INPUT_BOUND, tmp_path / "runs" / "1", None

    monkeypatch.setattr(session, "run", run)

    def call(*words):
        result = CliRunner().invoke(cli, ["diagnose", *words])
        caught["result"] = result
        return caught

    return call


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["train.py"], [sys.executable, "train.py"]),
        (["train.py", "--steps", "7"], [sys.executable, "train.py", "--steps", "7"]),
        (["train.py", "-q", "-h"], [sys.executable, "train.py", "-q", "-h"]),
        (["train.py", "--", "x"], [sys.executable, "train.py", "--", "x"]),
        (["train.py", "-m", "x"], [sys.executable, "train.py", "-m", "x"]),
        (["-q", "train.py", "-q"], [sys.executable, "train.py", "-q"]),
        (["--budget=90s", "train.py"], [sys.executable, "train.py"]),
        (
            ["-q", "-m", "pack.train", "--steps", "7", "-q"],
            [sys.executable, "-m", "pack.train", "--steps", "7", "-q"],
        ),
        (
            ["-m", "pack.train", "--", "-m"],
            [sys.executable, "-m", "pack.train", "--", "-m"],
        ),
        (["--", "torchrun", "--nproc", "2", "t.py"], ["torchrun", "--nproc", "2", "t.py"]),
        (["-q", "--", "sh", "-c", "x -- y"], ["sh", "-c", "x -- y"]),
        (["--json", "train.json", "train.py"], [sys.executable, "train.py"]),
    ],
    ids=" ".join,
)
def test_the_scripts_own_options_stay_its_own(asked, words, command):
    got = asked(*words)
    assert got["result"].exit_code == 0, got["result"].output
    assert list(got["target"].command) == command


def test_our_options_become_settings(asked, tmp_path):
    got = asked(
        *("--budget", "90s", "--stall", "2min", "--json", "a.json"),
        *("--patch", "a.diff", "--output-dir", "runs", "--fail-on", "9.5", "--quiet"),
        *("--ignore", "tf_cache, small-batch", "--ignore", "tf_interleave_parallel", "train.py"),
    )
    assert got["result"].exit_code == 0, got["result"].output
    settings = got["settings"]
    assert (settings.budget_s, settings.stall_s) == (90.0, 120.0)
    assert settings.ignore == ("tf_cache", "small_batch", "tf_interleave_parallel")
    assert settings.quiet
    assert settings.fail_on == 9.5
    assert settings.trace is None
    assert (tmp_path / "a.json").exists()
    assert (tmp_path / "a.diff").read_text() == INPUT_BOUND.patch.diff


def test_a_trace_is_asked_for_by_its_file_which_must_be_possible(asked, tmp_path):
    got = asked("--trace", "t.json.gz", "train.py", "--trace", "of the script")
    assert got["settings"].trace == Path("t.json.gz")
    assert got["target"].command[2:] == ("--trace", "of the script")
    assert not (tmp_path / "t.json.gz").exists()
    got.clear()
    got = asked("--trace", "gone/t.json", "train.py")
    assert "target" not in got, "nothing is run"
    assert "there is no folder gone to write t.json to" in str(got["result"].exception)


@pytest.fixture
def joined(asked, monkeypatch):
    """Catch what one rank would observe; it ends with exit status 3."""
    caught = {}

    def run(target, settings, place, console):
        caught.update(target=target, settings=settings, place=place)
        return 3

    monkeypatch.setattr("trainperf.commands.observe_rank.run", run)
    return lambda *words: {**caught, **asked(*words), **caught}


def test_a_process_that_is_one_rank_of_a_job_observes_that_rank(joined, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    got = joined("--run-dir", "records", "train.py", "--epochs", "3")
    assert got["result"].exit_code == 3
    assert (got["place"].rank, got["place"].world_size) == (1, 2)
    assert got["settings"].run_dir == Path("records")
    assert got["target"].command[1:] == ("train.py", "--epochs", "3")


def test_ranks_that_cannot_be_are_an_error_with_a_hint(joined, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "no such rank" in str(joined("train.py")["result"].exception)


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A run directory whose records give a known diagnosis."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.setattr("trainperf.ranks.merge.merge", lambda *given: INPUT_BOUND)
    return folder


def test_merge_prints_one_report_and_saves_it_with_the_records(records):
    result = CliRunner().invoke(cli, ["merge", str(records)])
    assert result.exit_code == 0, result.output
    assert "Input-bound" in " ".join(result.output.split())
    assert store.load(records / "diagnosis.json") == INPUT_BOUND
    shown = CliRunner().invoke(cli, ["show", str(records)])
    assert shown.exit_code == 0, shown.output


def test_merge_can_save_it_elsewhere_and_print_json(records, tmp_path):
    words = ["--output-format", "json", "--output", "joined.json", "--patch", "joined.diff"]
    result = CliRunner().invoke(cli, ["merge", *words, str(records)])
    assert json.loads(result.stdout)["verdict"]["bottleneck"] == "input"
    assert store.load(tmp_path / "joined.json") == INPUT_BOUND
    assert (tmp_path / "joined.diff").read_text() == INPUT_BOUND.patch.diff
    assert list(records.iterdir()) == []


def test_a_saved_run_is_shown_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "trainperf" / "runs" / "1" / "diagnosis.json"
    store.save(INPUT_BOUND, path)
    for words in (["show"], ["show", str(path)], ["show", str(path.parent)]):
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0
        assert "Input-bound" in result.output
    result = CliRunner().invoke(cli, ["show", "--output-format", "json", str(path)])
    assert result.output.startswith("{")
    store.save(INPUT_BOUND, copied := tmp_path / "of a mail.json")
    result = CliRunner().invoke(cli, ["show", str(copied)])
    assert f"trainperf show --full '{copied}'" in result.output


def test_explain_lists_all_and_tells_one():
    listed = CliRunner().invoke(cli, ["explain"]).output
    assert "tf_map_parallel" in listed
    told = CliRunner().invoke(cli, ["explain", "tf-map-parallel"]).output
    assert "When not to" in told
    assert "not seen" not in told


# ------------------------------------------------------------- as a process of its own


def called(*words, cwd=None, env=None):
    return subprocess.run(
        (sys.executable, "-m", "trainperf", *words),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_unknown_fix_is_answered_with_near_ones():
    result = called("explain", "map_paralel")
    assert result.returncode == 2
    assert "tf_map_parallel" in result.stderr


def test_the_version_and_the_help_come_without_heavy_imports():
    heavy = "numpy|rich|libcst|msgspec|pynvml|boto3|jinja2|psutil"
    code = (
        "import sys\nfrom trainperf.commands.cli import cli\n"
        "try:\n    cli(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print(sorted(set(sys.modules) & set('{heavy}'.split('|'))), file=sys.stderr)"
    )
    result = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True)
    assert "diagnose" in result.stdout
    assert result.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "line", "hint"),
    [
        (["diagnos"], "no such command 'diagnos'", "see trainperf --help"),
        (["merge"], "missing argument 'DIR'", "see trainperf merge --help"),
        (["check", "--basline", "b", "t.py"], "'--baseline'", "see trainperf check --help"),
    ],
)
def test_a_usage_error_is_one_line_and_a_hint(monkeypatch, capsys, words, line, hint):
    monkeypatch.setattr(sys, "argv", ["trainperf", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("trainperf: ")
    assert line in first
    assert second == f"  {hint}"
