"""The files that are checked together, by the names under which they import each other."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable
from pathlib import Path

from trainperf.lint.files import Unreadable, read
from trainperf.source.imports import file_of
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function

Definition = Function | ast.ClassDef
_DEEPEST = 4
"""How many files a name is followed through that one imports from the other."""


class Project:
    """Finds definitions in other files, each of which is parsed once and only when asked for.

    Only files that are checked as well are looked at: nothing outside of what was named.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = {os.path.abspath(path): path for path in paths if path.suffix == ".py"}
        self._modules: dict[str, Module | None] = {}

    def definition(self, name: str, path: Path, depth: int = 0) -> tuple[Module, Definition] | None:
        """Return the `def` or `class` that `name`, as imported in the file `path`, stands for.

        `name` is dotted, relative if it begins with a dot. None where it is not certain.
        """
        module, _, own = name.rpartition(".")
        file = file_of(module, path, self._paths.__contains__) if module.strip(".") else None
        if file is None or depth > _DEEPEST:
            return None
        found = self._parsed(file)
        bindings = found.top.bindings.get(own, []) if found is not None else []
        if found is None or len(bindings) != 1:
            return None
        only = bindings[0]
        if only.kind == "import":
            return self.definition(only.origin, self._paths[file], depth + 1)
        node = only.node
        return (found, node) if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else None

    def _parsed(self, file: str) -> Module | None:
        if file not in self._modules:
            self._modules[file] = self._parse(self._paths[file])
        return self._modules[file]

    def _parse(self, path: Path) -> Module | None:
        try:
            source = read(path)
            if source is None:
                return None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return Module(ast.parse(source.text), source.text, path, self)
        except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # it is said of the file itself
