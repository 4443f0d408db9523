"""The edits that a script has so far: of source, of its command, of files of settings."""

from __future__ import annotations

import ast
import os
import sysconfig
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import TypeVar

from trainperf import bounded
from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite.calls import CallChange, EditedFile
from trainperf.rewrite.configuration import Configuration
from trainperf.rewrite.edits import Edit, Insert, Rank, Replace
from trainperf.rewrite.imports import names_imported, names_in_use
from trainperf.source.arguments import written
from trainperf.source.module import Module
from trainperf.source.project import Project
from trainperf.source.text import Function, Source, parsed

LARGEST = 64 * bounded.MIB
"""No source is as large; what names one may be a name that the script made up."""
Reader = Callable[[str], bytes]
Found = TypeVar("Found")


def default_reader(path: str) -> bytes:
    """Return the bytes of a file; raises `OSError` where it is none, or too large."""
    return bounded.read(path, LARGEST)


def check_users(path: str, root: str) -> None:
    """Refuse files that are not the user's own."""
    parts = Path(path).parts
    if (
        not path.startswith(os.path.join(root, ""))
        or "site-packages" in parts
        or "dist-packages" in parts
        or path.startswith(_libraries())
    ):
        raise CannotRewrite("library files are never edited")


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of Python's own library."""
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    return tuple(os.path.realpath(each) + os.sep for each in folders)


def check_expression(text: str) -> None:
    """Refuse text that is not one expression, or that would be two arguments."""
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise CannotRewrite(f"not an expression: {text!r}") from error
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        raise CannotRewrite(f"not an expression: {text!r}")


class Editing:
    """The user's files, each read when it is first asked for, with the edits made to them so far.

    See `Script`. Every method raises `CannotRewrite` where a file is not the user's, or nothing
    stands at a site. `options` follow the command as it was run, each with its value.
    """

    def __init__(self, root: str | Path, read: Reader = default_reader) -> None:
        self.root = os.path.realpath(root)
        self.options: dict[str, str] = {}
        self._read = read
        self._files: dict[str, EditedFile] = {}
        self._configurations: dict[str, Configuration] = {}

    def expression(self, site: Site) -> str:
        """Return the original source text of the expression at `site`."""
        source = self._file(site.file).source
        return source.text_of(source.expression(site))

    def call(self, site: Site) -> ast.Call:
        """Return the call at `site`, to be read and never changed."""
        return self._file(site.file).source.call(site)

    def call_keywords(self, site: Site) -> dict[str, str]:
        """Return the keywords written out in the call at `site`, with their source text."""
        source = self._file(site.file).source
        keywords = source.call(site).keywords
        return {each.arg: source.text_of(each.value) for each in keywords if each.arg}

    def argument(self, site: Site, index: int, name: str = "") -> Site | None:
        """Return where an argument of the call at `site` stands, given by place or by name."""
        source = self._file(site.file).source
        node = written(source.call(site), name, index)
        return None if node is None else source.site(node, site)

    def source(self, file: str) -> Source:
        """Return the original text of a file with its syntax tree, never to be changed."""
        return self._file(file).source

    def linked(self, file: str) -> Module:
        """Return a file whose imports lead into the user's other files, to be read only."""
        return self.source(file).module.linked(self.path(file), self.project([file]))

    def project(self, start: Sequence[str]) -> Project:
        """Return the user's files as they import each other, reached from `start`."""
        parse = _or_none(lambda path: self.source(path).module)
        return Project(_or_none(self.data), parse, [self.path(name) for name in start])

    def definition(self, site: Site) -> Function:
        """Return the function whose head is at `site`, to be read and never changed."""
        return self._file(site.file).source.function(site)

    def around(self, site: Site) -> tuple[ast.stmt, ...]:
        """Return the statements around `site`, outermost first, to be read and never changed."""
        return tuple(node for node, _ in self._file(site.file).source.around(site))

    def module(self, file: str) -> ast.Module:
        """Return the syntax tree of a file, to be read and never changed."""
        return self._file(file).source.tree

    def site_of(self, near: Site, node: ast.expr) -> Site:
        """Return where an expression stands that is part of the file of another site."""
        return self._file(near.file).source.site(node, near)

    def free_name(self, file: str, *names: str, beside: Collection[str] = ()) -> str:
        """Return the first of some names that a file does not use, else the first numbered.

        `beside` are those that the same edit gives to something else.
        """
        taken = names_in_use(self.module(file)) | set(beside)
        numbered = (f"{names[0]}_{number}" for number in count(2))
        return next(name for name in chain(names, numbered) if name not in taken)

    def receiver(self, site: Site) -> Site:
        """Return where `x` of the call `x.method()` at `site` stands."""
        source = self._file(site.file).source
        call = source.call(site)
        if not isinstance(call.func, ast.Attribute):
            raise CannotRewrite(f"no method is called in {source.name}:{site.line}")
        return source.site(call.func.value, site)

    def data(self, name: str) -> bytes:
        """Return the bytes of a file of the user's."""
        path = self.path(name)
        real = os.path.realpath(path)
        if real in self._files:
            return self._files[real].source.data
        check_users(real, self.root)
        try:
            return self._read(path)
        except OSError as error:
            raise CannotRewrite(f"{name} cannot be read: {error.strerror}") from error

    def _file(self, name: str) -> EditedFile:
        path = self.path(name)
        real = os.path.realpath(path)
        if real not in self._files:
            data = self.data(name)
            source = parsed(os.path.relpath(real, self.root), data)
            self._files[real] = EditedFile(path, source)
        return self._files[real]

    def path(self, name: str) -> str:
        """Return the absolute path of a file."""
        return os.path.abspath(os.path.join(self.root, name))

    def append_to_command(self, option: str, value: str) -> None:
        """Have the script run with an option more, behind all others of its command."""
        before = self.options.setdefault(option, value)
        if before != value:
            raise CannotRewrite(f"another fix sets {option} to {before}")

    def set_in_configuration(self, path: str, name: str, value: object) -> None:
        """Give an outermost setting of a JSON or YAML file of the user's another plain value."""
        real = os.path.realpath(self.path(path))
        file = self._configurations.get(real)
        if file is None:
            relative = os.path.relpath(real, self.root).replace(os.sep, "/")
            file = Configuration.of(relative, self.path(path), self.data(path))
        self._configurations[real] = file.with_setting(name, value)

    def _edit(self, file: EditedFile, edits: Iterable[Edit]) -> None:
        self._put(replace(file, edits=tuple(dict.fromkeys((*file.edits, *edits)))))

    def _put(self, file: EditedFile) -> None:
        file.text  # noqa: B018 - raises before anything is kept
        self._files[os.path.realpath(file.path)] = file

    def _replace(self, file: EditedFile, node: ast.expr, value: str) -> None:
        if file.source.text_of(node) != value:
            self._edit(file, [Replace(file.source.span(node), value)])

    def _change_call(
        self,
        file: EditedFile,
        call: ast.Call,
        change: Callable[[CallChange], CallChange],
    ) -> None:
        key = file.source.span(call)[1]
        changed = change(file.calls.get(key, CallChange(call)))
        self._put(replace(file, calls={**file.calls, key: changed}))

    def _added_names(self, file: EditedFile) -> set[str]:
        texts = [e.text for e in file.edits if isinstance(e, Insert) and e.rank is Rank.IMPORT]
        return {name for text in texts for name in names_imported(text)}


def _or_none(read: Callable[[str], Found]) -> Callable[[str], Found | None]:
    """Have None in place of what may not be read."""

    def found(path: str) -> Found | None:
        try:
            return read(path)
        except CannotRewrite:
            return None

    return found
