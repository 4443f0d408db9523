"""The user's files that import each other, as far as they are asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from trainperf.source.imports import file_of
from trainperf.source.module import Module
from trainperf.source.origins.values import File, Held, Value, last_name
from trainperf.source.scopes import FUNCTIONS, Function

MOST_FILES = 100
"""No more files than this are read to find who calls a function."""

DEEPEST = 6
"""A name is followed through so many files that import it from each other."""

Definition = tuple[File, Function | ast.ClassDef]


class Project:
    """Files of the user's, by the names under which they import each other.

    `load` returns a file by its absolute path, None where there is none that may be read.
    `start` are the files that everything is reached from.
    """

    def __init__(self, load: Callable[[str], Module | None], start: Sequence[str]) -> None:
        self._load = load
        self._start = tuple(dict.fromkeys(start))
        self._files: dict[str, File | None] = {}

    def file(self, path: str) -> File | None:
        """Return a file by its path, parsed once."""
        if path not in self._files:
            module = self._load(path)
            self._files[path] = None if module is None else File(path, module)
        return self._files[path]

    @cached_property
    def files(self) -> tuple[File, ...]:
        """All files that the first ones import, and those that these import."""
        found: dict[str, File] = {}
        left = list(self._start)
        while left and len(found) < MOST_FILES:
            path = left.pop(0)
            file = None if path in found else self.file(path)
            if file is not None:
                found[path] = file
                left += [each for each in self._imported(file) if each not in found]
        return tuple(found.values())

    def _imported(self, file: File) -> Iterator[str]:
        for node in file.module.nodes:
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                folder = "." * node.level + (node.module or "")
                joined = folder if folder.endswith(".") else f"{folder}."
                names = [folder, *(f"{joined}{alias.name}" for alias in node.names)]
            for name in names:
                path = file_of(name, file.path, self._there) if name.strip(".") else None
                if path is not None:
                    yield path

    def _there(self, path: str) -> bool:
        return self.file(path) is not None

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
        found = self.bound(name, file.path) if name is not None and "." in name else None
        if found is None:
            return None
        bindings = found[0].top(found[1])
        target = bindings[0].node if len(bindings) == 1 else None
        if isinstance(target, (*FUNCTIONS, ast.ClassDef)):
            return found[0], target
        return None

    def calls_of(self, wanted: Definition) -> list[tuple[File, ast.Call]]:
        """Return the calls of a function or class, those of a method by its name alone."""
        owner, node = wanted
        method = isinstance(owner.module.parent(node), ast.ClassDef)
        found = []
        for file in dict.fromkeys((owner, *self.files)):
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
        return sum(each.name == name for file in self.files for each in file.module.functions)


class Tracing(Protocol):
    """What follows expressions of a project to where they come from."""

    project: Project

    def values(self, file: File, node: ast.expr) -> tuple[Value, ...]:
        """Return all that an expression may be."""

    def objects(self, file: File, node: ast.expr) -> tuple[Held, ...]:
        """Return all that an expression, whose attributes or entries are asked for, may hold."""
