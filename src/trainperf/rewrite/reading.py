"""Reading the user's source at the sites of a run."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite.checks import check_users
from trainperf.rewrite.edited import EditedFile
from trainperf.source.arguments import keyword, positional
from trainperf.source.defaults import Origin, origin
from trainperf.source.text import Function, Source

Reader = Callable[[str], bytes]


def default_reader(path: str) -> bytes:
    """Return the bytes of a file; raises `OSError`."""
    return Path(path).read_bytes()


class Reading:
    """The user's source files, each read when it is first asked for.

    `root` is the folder whose files may be read; `read` returns the bytes of a file by
    its absolute path. Every method raises `CannotRewrite` where a file is not the
    user's, or nothing stands at a site.
    """

    def __init__(self, root: str | Path, read: Reader = default_reader) -> None:
        self.root = os.path.realpath(root)
        self._read = read
        self._files: dict[str, EditedFile] = {}

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
        call = source.call(site)
        named = keyword(call, name) if name else None
        node = named.value if named else positional(call, index)
        return None if node is None else source.site(node, site)

    def origin(
        self, site: Site, index: int | None, name: str, *, shared: bool = False
    ) -> tuple[Site, Origin]:
        """Return the literal that the argument `name` of the call at `site` comes from.

        It stands elsewhere in the file, as `defaults.origin` says, and is its default only.
        """
        source = self._file(site.file).source
        found = origin(source.tree, source.call(site), name, index, shared=shared)
        return source.site(found.node, site), found

    def definition(self, site: Site) -> Function:
        """Return the function whose head is at `site`, to be read and never changed."""
        return self._file(site.file).source.function(site)

    def methods(self, site: Site) -> dict[str, Function]:
        """Return the functions of the class that the one at `site` stands in, by name."""
        source = self._file(site.file).source
        own = source.function(site)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and own in node.body:
                return {each.name: each for each in node.body if isinstance(each, Function)}
        return {}

    def around(self, site: Site) -> tuple[ast.stmt, ...]:
        """Return the statements around `site`, outermost first, to be read and never changed."""
        return tuple(node for node, _ in self._file(site.file).source.around(site))

    def module(self, file: str) -> ast.Module:
        """Return the syntax tree of a file, to be read and never changed."""
        return self._file(file).source.tree

    def receiver(self, site: Site) -> Site:
        """Return where `x` of the call `x.method()` at `site` stands."""
        source = self._file(site.file).source
        call = source.call(site)
        if not isinstance(call.func, ast.Attribute):
            raise CannotRewrite(f"no method is called in {source.name}:{site.line}")
        return source.site(call.func.value, site)

    def _file(self, name: str) -> EditedFile:
        path = os.path.abspath(os.path.join(self.root, name))
        real = os.path.realpath(path)
        if real not in self._files:
            check_users(real, self.root)
            try:
                data = self._read(path)
            except OSError as error:
                raise CannotRewrite(f"{name} cannot be read: {error.strerror}") from error
            source = Source(os.path.relpath(real, self.root), data)
            self._files[real] = EditedFile(path, source)
        return self._files[real]
