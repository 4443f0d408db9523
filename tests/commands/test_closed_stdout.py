"""A pipe that nobody reads on, and a disk that is full, under the whole command line."""

import subprocess
import sys

import pytest

from reporters.samples import INPUT_BOUND
from trainperf import store

SHOW = f"{sys.executable} -m trainperf show --full"


@pytest.fixture
def shell(tmp_path):
    store.save(INPUT_BOUND, tmp_path / "run.json")

    def run(command):
        return subprocess.run(
            ("bash", "-c", command), cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize("format", ["terminal", "json", "github"])
def test_who_reads_the_first_line_only_costs_no_status_and_no_file(shell, tmp_path, format):
    files = "--output-format html=report.html"
    ended = shell(
        f"{SHOW} --output-format {format} {files} run.json | true; exit ${{PIPESTATUS[0]}}"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "report.html").read_text().startswith("<!")


def test_a_full_disk_is_one_line_and_the_files_are_written(shell, tmp_path):
    ended = shell(f"{SHOW} --output-format html=report.html run.json > /dev/full")
    assert ended.returncode == 2
    first, hint = ended.stderr.splitlines()
    assert first == "trainperf: cannot write to standard output: No space left on device"
    assert hint.startswith("  free some space")
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("command", ["explain", "--help", "--version"])
def test_other_commands_say_it_as_well(shell, command):
    ended = shell(f"{sys.executable} -m trainperf {command} > /dev/full")
    assert ended.returncode == 2
    assert ended.stderr.startswith("trainperf: cannot write to standard output")
    assert "Traceback" not in ended.stderr
