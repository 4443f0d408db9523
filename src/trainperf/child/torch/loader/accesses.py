"""The cost of how items get at their data: files opened, columns taken.

Calls that another way would not make for every item are timed while items are made, in libraries
that the program has imported.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...process.patching import replace, undo
from . import datasets

OPENINGS = {
    "h5py": ("File.__init__", "File.close"),
    "lmdb": ("open",),
    "numpy": ("load",),
    "pandas": ("read_csv", "read_parquet"),
    "pyarrow.parquet": ("ParquetFile.__init__", "ParquetFile.close", "read_table"),
    "tarfile": ("open",),
    "zipfile": ("ZipFile.__init__", "ZipFile.close"),
}
"""What opens, reads whole or closes a file."""

COLUMNS = {"datasets.arrow_dataset": ("Column.__getitem__", "Dataset.__getitem__")}
"""What takes a column of a table of Hugging Face's `datasets`, and an element of it. Before version
4 there is no class of columns: taking one reads all of it."""

COLUMN = "column"


class Accesses:
    """Seconds of such calls and how many there were, by the name of what is called."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._files: dict[str, set[str]] = {}
        self._inside = False

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time them while the block runs; put back what was replaced."""
        replaced = []
        try:
            for module, names in {**OPENINGS, **COLUMNS}.items():
                for name in names:
                    owner, last = _owner(module, name)
                    if owner is not None and hasattr(owner, last):
                        replace(owner, last, self._timing(module, name))
                        replaced.append((owner, last))
            yield
        finally:
            for owner, last in replaced:
                undo(owner, last)

    def _timing(self, module: str, name: str) -> Callable[[Any], Any]:
        told = COLUMN if module in COLUMNS else f"{module}.{name.split('.')[0]}"
        closes, row = name.endswith(".close"), name == "Dataset.__getitem__"
        whole = not hasattr(sys.modules.get(module), "Column")
        opens = module in OPENINGS and not closes

        def make(original: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                given = next(iter([*args[name.endswith("__init__") :], *kwargs.values()]), None)
                named = isinstance(given, (str, bytes, os.PathLike))  # h5py makes files of others
                by_row = row and not isinstance(args[-1], str)
                if self._inside or by_row or (opens and not named):
                    return original(*args, **kwargs)
                self._inside, began = True, time.monotonic()
                try:
                    return original(*args, **kwargs)
                finally:
                    self._inside = False
                    spent = time.monotonic() - began
                    self.seconds[told] = self.seconds.get(told, 0.0) + spent
                    self.calls[told] = self.calls.get(told, 0) + (not closes and (whole or not row))
                    if opens:
                        self._files.setdefault(told, set()).add(str(given))

            return call

        return make

    def of_items(self, made: int, item_s: float, dataset: Any) -> list[dict[str, Any]]:
        """What was called for so many items: calls and seconds for each, the share of `item_s`.

        `repeated` is the share of calls that were given a file which another was given. Of columns
        it says as well which attributes of the dataset are tables and which columns.
        """
        return [
            {
                "name": name,
                "calls": self.calls[name] / made,
                "seconds": seconds / made,
                "repeated": 1 - len(self._files.get(name, ())) / self.calls[name],
                "share": min(1.0, seconds / made / max(item_s, 1e-9)),
                "tables": _held(dataset, "Dataset") if name == COLUMN else [],
                "columns": _held(dataset, "Column") if name == COLUMN else [],
            }
            for name, seconds in self.seconds.items()
            if self.calls[name]
        ]


def _owner(module: str, name: str) -> tuple[Any, str]:
    """The object whose attribute the last part of a name is; None where nothing imported it."""
    *path, last = name.split(".")
    owner: Any = sys.modules.get(module)
    for each in path:
        owner = getattr(owner, each, None)
    return owner, last


def _held(dataset: Any, kind: str) -> list[str]:
    """The attributes of the user's dataset that are a table of `datasets`, or a column of one."""
    cls = getattr(sys.modules["datasets.arrow_dataset"], kind, ())
    held = [getattr(one, "__dict__", {}) for one in datasets.inner(dataset)]
    return [name for fields in held for name, value in fields.items() if isinstance(value, cls)]
