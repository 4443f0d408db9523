"""The kit as a whole: it is collected everywhere, and fits into ten minutes on one GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

MOST_S = 600


def test_the_kit_is_planned_for_ten_minutes() -> None:
    told = subprocess.run(
        (sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-m", "gpu",
         str(Path(__file__).parent)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    planned = re.search(r"planned for one GPU: (\d+) s", told.stdout)
    assert planned is not None, told.stdout
    assert 300 < int(planned.group(1)) <= MOST_S
