"""Tables of Hugging Face's `datasets` that are mapped ahead of the training."""

from __future__ import annotations

import inspect
from typing import Any

from ..process import frames
from ..process.patching import replace
from ..process.process import Attempt, Process


def hook(process: Process, module: Any) -> None:
    """Time each `map` that gives its function one row at a time."""
    signature = inspect.signature(module.Dataset.map)

    def make(original: Any) -> Any:
        def map(self: Any, *args: Any, **kwargs: Any) -> Any:
            began = process.clock()
            try:
                return original(self, *args, **kwargs)
            finally:
                _record(process, began, signature, (self, *args), kwargs)

        return map

    replace(module.Dataset, "map", make)


def _record(
    process: Process,
    began: float,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    if process.off:
        return
    with Attempt(process, "a table that is mapped"):
        if not signature.bind(*args, **kwargs).arguments.get("batched"):
            seconds = process.clock() - began
            process.record.write("row_map", s=began, seconds=seconds, where=frames.here())
