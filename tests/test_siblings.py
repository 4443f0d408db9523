"""The stand-in for a card that has room for so many processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kit import siblings

torch = pytest.importorskip("torch")


def sibling(folder: Path) -> subprocess.Popen[bytes]:
    code = "import sys, kit.siblings as s; s.enter(sys.argv[1], 9); print(flush=True); input()"
    made = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent,
    )
    assert made.stdout is not None
    made.stdout.readline()
    return made


def test_who_comes_too_late_is_out_of_memory_until_another_ends(tmp_path: Path) -> None:
    first = sibling(tmp_path)
    try:
        assert siblings.living(tmp_path) == [first.pid]
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            siblings.enter(tmp_path, most=1)
        assert siblings.living(tmp_path) == [first.pid]
        siblings.enter(tmp_path, most=2)
        assert len(siblings.living(tmp_path)) == 2
    finally:
        first.kill()
        assert len(siblings.living(tmp_path)) <= 2
        first.communicate()
    siblings.enter(tmp_path, most=1)
