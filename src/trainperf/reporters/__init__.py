"""The reporters: one module each, a `Diagnosis` to text, discovered by being there."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import cast

from trainperf.errors import TrainperfError

REPORTERS: tuple[str, ...] = tuple(
    sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
)
"""The names of the reporters: the modules of this folder that do not start with `_`."""


def reporter(name: str) -> Callable[..., str | None]:
    """Return the `render` function of the reporter `name`.

    It takes a `Diagnosis` and returns text; that of "terminal" takes the console it
    prints to as well, and returns nothing. Raises `TrainperfError` for other names.
    """
    if name not in REPORTERS:
        raise TrainperfError(
            f"there is no reporter named {name!r}", hint=f"choose one of: {', '.join(REPORTERS)}"
        )
    module = importlib.import_module(f"{__name__}.{name}")
    return cast("Callable[..., str | None]", module.render)
