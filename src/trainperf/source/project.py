"""The user's files that import each other, as far as they are asked for."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Binding, Function
from trainperf.source.statements import last_name

_MOST_FILES = 300
"""No more files than this are looked through for who calls a function."""

_DEEPEST = 6
"""A name is followed through so many files that import it from each other."""

_IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*|[^\n#]*)|import[ \t]+([^\n#]+))", re.M
)

_Definition = tuple[Module, Function | ast.ClassDef]
_Bound = tuple[Module, str, list[Binding]]


class Project:
    """Files of the user's, by the names under which they import each other.

    `read` returns the bytes of a file by its absolute path, `parse` the file as it is parsed: None
    where there is none that may be read, or it cannot be. `start` are the files that everything is
    reached from. A file is parsed only where a word that is looked for stands in it.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        parse: Callable[[str], Module | None],
        start: Sequence[str],
    ) -> None:
        self._read, self._parse = read, parse
        self._start = tuple(dict.fromkeys(start))
        self._data: dict[str, bytes | None] = {}
        self._files: dict[str, Module | None] = {}

    def file(self, path: str) -> Module | None:
        """Return a file by its path, parsed once."""
        if path not in self._files:
            module = self._parse(path) if self._there(path) else None
            self._files[path] = None if module is None else module.linked(path, self)
        return self._files[path]

    def holding(self, *words: str) -> Iterator[Module]:
        """Yield the files, of all that are imported, in which one of some words stands."""
        for path in self._paths:
            data = self._data[path] or b""
            file = self.file(path) if any(word.encode() in data for word in words) else None
            if file is not None:
                yield file

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        """All files that the first ones import, and those that these import."""
        found: dict[str, None] = {}
        left = list(self._start)
        while left and len(found) < _MOST_FILES:
            path = left.pop(0)
            if path not in found and self._there(path):
                found[path] = None
                left += [each for each in self._imported(path) if each not in found]
        return tuple(found)

    def _imported(self, path: str) -> Iterator[str]:
        for folder, inside, whole in _IMPORTS.findall(self._data[path] or b""):
            base = folder.decode()
            joined = base if base.endswith(".") or not base else f"{base}."
            names = [base] if base else []
            for each in re.split(r"[\s(),;]+", (inside or whole).decode(errors="replace")):
                if re.fullmatch(r"[\w.]+", each):
                    names.append(f"{joined}{each}")
            for name in dict.fromkeys(names):
                file = _file_of(name, path, self._there) if name.strip(".") else None
                if file is not None:
                    yield file

    def _there(self, path: str) -> bool:
        if path not in self._data:
            self._data[path] = self._read(path)
        return self._data[path] is not None

    def bound(self, name: str, path: str, depth: int = 0) -> _Bound | None:
        """Return what binds what the file `path` imports as `name`: its file, its name there.

        `name` is dotted, relative if it begins with a dot.
        """
        module, _, own = name.rpartition(".")
        found = _file_of(module, path, self._there) if module.strip(".") else None
        file = self.file(found) if found is not None else None
        if file is None or depth > _DEEPEST:
            return None
        bindings = file.top.bindings.get(own, [])
        if len(bindings) == 1 and bindings[0].kind == "import":
            return self.bound(bindings[0].origin, file.path, depth + 1)
        return (file, own, bindings) if bindings else None

    def definition(self, name: str, path: str) -> _Definition | None:
        """Return the `def` or `class` that the file `path` imports as `name`, and its file."""
        file, _, bindings = self.bound(name, path) or (None, "", [])
        target = bindings[0].node if len(bindings) == 1 else None
        if file is not None and isinstance(target, (*FUNCTIONS, ast.ClassDef)):
            return file, target
        return None

    def calls_of(self, wanted: _Definition) -> list[tuple[Module, ast.Call]]:
        """Return the calls of a function or class, those of a method by its name alone."""
        owner, node = wanted
        method = isinstance(owner.parent(node), ast.ClassDef)
        found = []
        for file in dict.fromkeys((owner, *self.holding(node.name))):
            for call in file.nodes:
                if not isinstance(call, ast.Call):
                    continue
                if method:
                    ours = isinstance(call.func, ast.Attribute) and call.func.attr == node.name
                else:
                    defined = file.defined(call.func) if last_name(call.func) else None
                    ours = defined is not None and defined[1] is node
                if ours:
                    found.append((file, call))
        return found

    def named_alike(self, name: str) -> int:
        """How many functions of these files have this name."""
        files = self.holding(f"def {name}")
        return sum(each.name == name for file in files for each in file.functions)


def _file_of(module: str, path: str | Path, there: Callable[[str], bool]) -> str | None:
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
