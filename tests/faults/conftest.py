"""The fixture of the faults: a place to diagnose in, of which nothing may be changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.harness import Place


@pytest.fixture
def place(tmp_path: Path, nothing_left: str) -> Place:
    """A user's folder, and one for runs, in a temporary one of its own."""
    home, runs = tmp_path / "home", tmp_path / "runs"
    home.mkdir()
    made = Place(home, runs, Path(os.environ["TMPDIR"]), nothing_left)
    made.remember()
    return made
