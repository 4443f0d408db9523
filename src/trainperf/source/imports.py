"""Which file a module's name stands for, among files that import each other."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def file_of(module: str, path: str | Path, there: Callable[[str], bool]) -> str | None:
    """Return the file of `module`, as the file `path` imports it; None where there is none.

    `module` is dotted, relative if it begins with a dot. It is looked for beside the file that
    imports it, then in the folders further out. `there` says whether a file exists.
    """
    bare = module.lstrip(".")
    level = len(module) - len(bare)
    folders = Path(os.path.abspath(path)).parents
    for folder in folders[level - 1 : level] if level else folders:
        stem = os.path.join(folder, *bare.split(".")) if bare else str(folder)
        for file in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            if there(file):
                return file
    return None
