"""Time each step of a pipeline of WebDataset while it makes items."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from ...process import frames
from . import datasets, webdataset
from .items import Items


class PipelineTimes:
    """The seconds that passed in the steps of a copy of a pipeline, up to each of them."""

    def __init__(self, dataset: Any) -> None:
        self.timed = copy.copy(dataset)
        self._steps = list(dataset.pipeline)
        self._seconds = [0.0] * len(self._steps)
        self._given = [0] * len(self._steps)
        between = [partial(self._through, at) for at in range(len(self._steps))]
        self.timed.pipeline = [
            each for pair in zip(self._steps, between, strict=True) for each in pair
        ]

    @classmethod
    def of(cls, items: Items) -> PipelineTimes | None:
        """Have items be made by a copy that is timed; None where their dataset is no pipeline."""
        if not webdataset.is_pipeline(items.dataset):
            return None
        made = cls(items.dataset)
        items.dataset = made.timed
        return made

    def _through(self, at: int, source: Any) -> Iterator[Any]:
        iterator = iter(source)
        while True:
            began = time.monotonic()
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self._seconds[at] += time.monotonic() - began
            self._given[at] += 1
            yield item

    def found(self) -> list[dict[str, Any]]:
        """The fields of a `PipelineStep` for each step that gave something, the dearest first."""
        before = [0.0, *self._seconds]
        whole = max(self._seconds[-1], 1e-9)
        own = [now - then for then, now in zip(before, self._seconds, strict=False)]
        found = [
            {
                "name": webdataset.step_name(step),
                "seconds": seconds / given,
                "share": seconds / whole,
                "where": _head(step),
            }
            for step, seconds, given in zip(self._steps, own, self._given, strict=True)
            if given
        ]
        return sorted(found, key=lambda one: -float(one["share"]))


def _head(step: Any) -> dict[str, Any] | None:
    """The head of the user's function in a step."""
    codes = (datasets.users_code(one) for one in webdataset.step_functions(step))
    code = next((one for one in codes if one is not None), None)
    return None if code is None else frames.definition(code)
