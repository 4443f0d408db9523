"""The text at a place that was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def text_at(site: dict[str, Any]) -> str:
    """The source between the columns and lines of a site."""
    lines = Path(site["file"]).read_text(encoding="utf-8").splitlines()
    picked = lines[site["line"] - 1 : site["end_line"]]
    picked[-1] = picked[-1][: site["end_col"]]
    picked[0] = picked[0][site["col"] :]
    return "\n".join(picked)
