"""The user's files that import each other, as far as they are asked for."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from trainperf.source.module import Module, file_of
from trainperf.source.origins.values import Contents, File, Given, Value
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import last_name

MOST_FILES = 300
"""No more files than this are looked through for who calls a function."""

DEEPEST = 6
"""A name is followed through so many files that import it from each other."""

_IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*|[^\n#]*)|import[ \t]+([^\n#]+))", re.M
)

OWN = ("self", "cls")
Definition = tuple[File, Function | ast.ClassDef]


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
        self._files: dict[str, File | None] = {}

    def file(self, path: str) -> File | None:
        """Return a file by its path, parsed once."""
        if path not in self._files:
            module = self._parse(path) if self._there(path) else None
            self._files[path] = None if module is None else File(path, module)
        return self._files[path]

    def holding(self, *words: str) -> Iterator[File]:
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
        while left and len(found) < MOST_FILES:
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
                file = file_of(name, path, self._there) if name.strip(".") else None
                if file is not None:
                    yield file

    def _there(self, path: str) -> bool:
        if path not in self._data:
            self._data[path] = self._read(path)
        return self._data[path] is not None

    def bound(self, name: str, path: str, depth: int = 0) -> tuple[File, str] | None:
        """Return the file that binds what the file `path` imports as `name`, and its name there.

        `name` is dotted, relative if it begins with a dot.
        """
        module, _, own = name.rpartition(".")
        found = file_of(module, path, self._there) if module.strip(".") else None
        file = self.file(found) if found is not None else None
        if file is None or depth > DEEPEST:
            return None
        bindings = file.top(own)
        if len(bindings) == 1 and bindings[0].kind == "import":
            return self.bound(bindings[0].origin, file.path, depth + 1)
        return (file, own) if bindings else None

    def defined(self, file: File, node: ast.expr) -> Definition | None:
        """Return the `def` or `class` of these files that a name stands for."""
        local = file.module.definition(node)
        if local is not None:
            return file, local
        name = file.module.name(node)
        return self._imported_by(name, file.path) if name is not None and "." in name else None

    def definition(self, name: str, path: Path) -> tuple[Module, Function | ast.ClassDef] | None:
        """Return the `def` or `class` that the file `path` imports as `name`, and its file."""
        found = self._imported_by(name, str(path))
        if found is None:
            return None
        return found[0].module.linked(Path(found[0].path), self), found[1]

    def _imported_by(self, name: str, path: str) -> Definition | None:
        found = self.bound(name, path)
        bindings = found[0].top(found[1]) if found is not None else []
        target = bindings[0].node if len(bindings) == 1 else None
        if found is not None and isinstance(target, (*FUNCTIONS, ast.ClassDef)):
            return found[0], target
        return None

    def method(self, file: File, node: ast.expr) -> Definition | None:
        """Return the method of a class, or of the class around, that `A.f` or `self.f` names."""
        if not isinstance(node, ast.Attribute):
            return None
        owner = file.module.scope(node).owner() if last_name(node.value) in OWN else None
        found = (file, owner.node) if owner is not None else self.defined(file, node.value)
        for each in getattr(found[1], "body", ()) if found is not None else ():
            if isinstance(each, FUNCTIONS) and each.name == node.attr and found is not None:
                return found[0], each
        return None

    def calls_of(self, wanted: Definition) -> list[tuple[File, ast.Call]]:
        """Return the calls of a function or class, those of a method by its name alone."""
        owner, node = wanted
        method = isinstance(owner.module.parent(node), ast.ClassDef)
        found = []
        for file in dict.fromkeys((owner, *self.holding(node.name))):
            for call in file.module.nodes:
                if not isinstance(call, ast.Call):
                    continue
                if method:
                    ours = isinstance(call.func, ast.Attribute) and call.func.attr == node.name
                else:
                    ours = self._is(file, call.func, wanted)
                if ours:
                    found.append((file, call))
        return found

    def _is(self, file: File, node: ast.expr, wanted: Definition) -> bool:
        defined = self.defined(file, node) if last_name(node) else None
        return defined is not None and defined[1] is wanted[1]

    def named_alike(self, name: str) -> int:
        """How many functions of these files have this name."""
        files = self.holding(f"def {name}")
        return sum(each.name == name for file in files for each in file.module.functions)


class Tracing(Protocol):
    """A reader that follows expressions of a project to where they come from."""

    project: Project

    def values(self, file: File, node: ast.expr) -> tuple[Value, ...]:
        """Return all that an expression may be."""

    def objects(self, file: File, node: ast.expr) -> tuple[Contents, ...]:
        """Return all that an expression, whose attributes or entries are asked for, may hold."""

    def held(self, bound: Given) -> Sequence[Contents]:
        """Return all that something may hold that is bound so."""
