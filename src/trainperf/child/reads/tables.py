"""Tables of Hugging Face's `datasets` that are mapped ahead of the training."""

from __future__ import annotations

import inspect
from typing import Any

from ..process import frames
from ..process.patching import around
from ..process.process import Attempt, Process


def hook(process: Process, module: Any) -> None:
    """Time each `map` that gives its function one row at a time."""
    signature = inspect.signature(module.Dataset.map)

    @around(process, module.Dataset, "map")
    def map(original: Any, *args: Any, **kwargs: Any) -> Any:
        began = process.clock()
        try:
            return original(*args, **kwargs)
        finally:
            with Attempt(process, "a table that is mapped"):
                if not signature.bind(*args, **kwargs).arguments.get("batched"):
                    seconds = process.clock() - began
                    process.record.write("row_map", s=began, seconds=seconds, where=frames.here())
