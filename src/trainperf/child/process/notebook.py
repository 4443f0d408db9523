"""The names that the code of a notebook expects to find."""

from __future__ import annotations

import builtins
import os
from typing import Any


def install() -> None:
    """Give the code of a notebook `display`, which prints, and `get_ipython`, which says None.

    None is what IPython's own says outside of it. Figures are drawn and not shown.
    """
    given: Any = builtins
    given.display = _display
    given.get_ipython = lambda: None
    os.environ["MPLBACKEND"] = "agg"


def _display(*objects: object, **how: object) -> None:
    print(*objects, sep="\n")
