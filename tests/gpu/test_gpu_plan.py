"""The kit as a whole: it is collected everywhere, and its parts fit into the README's command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

KIT = Path(__file__).parent
COMMAND = next(
    block for block in (KIT / "README.md").read_text().split("```") if "case $part in" in block
)
PARTS = [
    (files.split(), int(limit), int(after))
    for files, limit, after in re.findall(r'files="(.+?)" limit=(\d+) after=(\d+) ;;', COMMAND)
]
MOST_S = 580
"""A command may take ten minutes, and is to end by itself."""
BEFORE_S = 15
"""The import of PyTorch beforehand, the collection, and the calibration."""
MOST_CHARACTERS = 2000


COLLECT = """
import sys, pytest
for names in sys.argv[1:]:
    pytest.main(["--collect-only", "-q", "-o", "addopts=", "-m", "gpu", *names.split()])
"""


def test_each_part_is_planned_to_end_in_its_time() -> None:
    parts = [" ".join(f"test_gpu_{name}.py" for name in files) for files, _, _ in PARTS]
    command = (sys.executable, "-c", COLLECT, *parts)
    told = subprocess.run(command, cwd=KIT, capture_output=True, text=True, check=True).stdout
    planned = [int(seconds) for seconds in re.findall(r"planned for one GPU: (\d+) s", told)]
    assert len(planned) == len(PARTS) == 3, told
    for seconds, (_, limit, after) in zip(planned, PARTS, strict=True):
        assert 200 < seconds + BEFORE_S <= limit
        assert limit + after + BEFORE_S <= MOST_S


def test_the_parts_are_all_of_the_kit_and_the_command_is_short() -> None:
    told = sorted(f"test_gpu_{name}.py" for files, _, _ in PARTS for name in files)
    there = {path.name for path in KIT.glob("test_gpu_*.py")} - {Path(__file__).name}
    assert told == sorted(there)
    assert len(COMMAND) < MOST_CHARACTERS
